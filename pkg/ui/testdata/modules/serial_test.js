import { none, plain, taken } from "/ui/serial.js";
import { equal } from "./equal.js";

const said = (state) => new TextDecoder().decode(state.bytes);

export function inParts() {
  let s = taken(none, { offset: 0, data: btoa("ab"), end: 4 });
  s = taken(s, { offset: 2, data: btoa("cd"), end: 4 });
  s = taken(s, { offset: 4, data: "", end: 4 });
  equal([said(s), s.next, s.lost], ["abcd", 4, false]);
  s = taken(s, { offset: 9, data: btoa("xy"), end: 11 }); // the host did not keep what is between
  equal([said(s), s.next, s.lost], ["xy", 11, true]);
  equal(said(taken(s, { offset: 11, data: btoa("z"), end: 12 }, 2)), "yz");
}

export function aLetterInTwoParts() {
  const [a, b] = [String.fromCharCode(0xc3), String.fromCharCode(0xa9)];
  const s = taken(taken(none, { offset: 0, data: btoa(a), end: 2 }), { offset: 1, data: btoa(b), end: 2 });
  equal(said(s), "é");
}

export function terminals() {
  equal(plain("\x1b[1;32mok\x1b[0m\r\nlogin: \x1b]0;title\x07\x00x\ry"), "ok\nlogin: x\ny");
}
