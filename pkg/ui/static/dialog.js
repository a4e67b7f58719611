// A question before something is done. It names what it is about.

import { Component, h } from "./vendor/preact.mjs";
import { Field, Refused } from "./views.js";

// Dialog asks { title, text, verb, bad, fields, run }. run is given what was typed; when it has ended the dialog closes.
// It says which question it closes: a browser tells that a dialog was closed a frame later, and the next may be open then.
export class Dialog extends Component {
  constructor() {
    super();
    this.state = { problem: null, busy: false };
  }

  submit = async (e) => {
    e.preventDefault();
    const { ask, close } = this.props;
    const values = {};
    for (const f of ask.fields || []) {
      const input = e.target.elements[f.name];
      values[f.name] = f.type === "checkbox" ? input.checked : input.value;
    }
    this.setState({ busy: true, problem: null });
    try {
      await ask.run(values);
      close(ask);
    } catch (problem) {
      this.setState({ busy: false, problem });
    }
  };

  componentDidMount() {
    this.box.showModal();
  }

  // Closing it gives the focus back to where it was.
  componentWillUnmount() {
    this.box.close();
  }

  render({ ask, close }, { problem, busy }) {
    const closed = () => close(ask);
    return h("dialog", { ref: (d) => { if (d) this.box = d; }, onClose: closed, "aria-labelledby": "ask" },
      h("form", { onSubmit: this.submit },
        h("h2", { id: "ask" }, ask.title), h("p", null, ask.text),
        (ask.fields || []).map((f) => f.type === "checkbox"
          ? h("div", { class: "field check", key: f.name }, h("input", { type: "checkbox", id: "f-" + f.name, name: f.name }), h("label", { for: "f-" + f.name }, f.label))
          : h(Field, { key: f.name, ...f })),
        problem && h(Refused, { problem }),
        h("div", { class: "actions" },
          h("button", { type: "button", onClick: closed }, "Cancel"),
          h("button", { type: "submit", class: ask.bad ? "bad" : "main", disabled: busy }, ask.verb))));
  }
}
