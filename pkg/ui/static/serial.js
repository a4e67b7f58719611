// What a machine printed, made readable. Pure.

// plain leaves out what moves cursors and colours text on a terminal, and carriage returns before an end of line.
export const plain = (text) => text
  .replace(/\x1b\[[0-9;?]*[ -/]*[@-~]/g, "")
  .replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)?/g, "")
  .replace(/\x1b[@-_]/g, "")
  .replace(/\r+\n/g, "\n").replace(/\r/g, "\n")
  .replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");

// bytes are those of base64.
export const bytes = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

// taken is the state after an answer { offset, data, end }: the bytes so far, and where to go on. A part that was
// not kept is said; the oldest is left out beyond most bytes.
export function taken(state, answer, most = 256 * 1024) {
  const data = bytes(answer.data);
  const lost = state.next !== null && answer.offset > state.next;
  let all = new Uint8Array((lost ? 0 : state.bytes.length) + data.length);
  if (!lost) all.set(state.bytes);
  all.set(data, all.length - data.length);
  if (all.length > most) all = all.slice(-most);
  return { bytes: all, next: answer.offset + data.length, lost: state.lost || lost };
}

export const none = { bytes: new Uint8Array(), next: null, lost: false };
