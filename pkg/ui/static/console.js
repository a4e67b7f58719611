// The serial console of one machine: its host is asked for what came since, while somebody looks.

import { Component, h } from "./vendor/preact.mjs";
import { at, get, settled } from "./api.js";
import { live } from "./live.js";
import { none, plain, taken } from "./serial.js";
import { Card, Refused } from "./views.js";

export class Console extends Component {
  constructor() {
    super();
    this.state = { open: false, said: none, problem: null };
  }

  componentWillUnmount() {
    this.follow?.stop();
  }

  open = () => {
    this.setState({ open: true });
    this.follow = live(async () => {
      const { said } = this.state;
      const query = { project: this.props.project, offset: said.next === null ? undefined : said.next };
      try {
        const answer = await get(at("instances", this.props.id, "console"), query);
        this.setState({ said: taken(said, answer), problem: null });
      } catch (problem) {
        this.setState({ problem });
        return !settled(problem);
      }
    });
  };

  // The end is shown for as long as the reader is there.
  getSnapshotBeforeUpdate() {
    const e = this.box;
    return !e || e.scrollTop + e.clientHeight >= e.scrollHeight - 30;
  }

  componentDidUpdate(_, __, atEnd) {
    if (this.box && atEnd) this.box.scrollTop = this.box.scrollHeight;
  }

  render(_, { open, said, problem }) {
    const text = plain(new TextDecoder().decode(said.bytes));
    return h(Card, { title: "Serial console" },
      !open && h("p", null, h("button", { onClick: this.open }, "Show what it prints")),
      problem && h(Refused, { problem, what: "The console cannot be read: " }),
      open && said.lost && h("p", { class: "dim" }, "A part was printed that its host did not keep."),
      open && h("pre", { class: "serial", tabindex: 0, role: "log", "aria-label": "serial console", ref: (e) => { this.box = e; } },
        text || (said.next === null ? "Asking its host …" : "It has printed nothing yet.")));
  }
}
