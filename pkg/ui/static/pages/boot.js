import { Component, h } from "../vendor/preact.mjs";
import { at, call, get, newKey, settled } from "../api.js";
import { asked, body, empty, faults, like, unlike } from "../form.js";
import { mayChange, operates } from "../session.js";
import { Card, Empty, Facts, Field, Head, List, Note, Standings } from "../views.js";
import { amounts, className, plural, shortID, usage } from "../words.js";

export const title = "Boot";

// load reads what there is to choose from, and the instance that the machine is to be like.
export async function load(ctx, { query }) {
  const { project } = ctx;
  const [{ flavors, items, limits, defaults, on_no_capacity: choices }, model] = await Promise.all([
    get("/v1/capabilities"), query.like ? get(at("instances", query.like), { project }) : null,
  ]);
  const most = Object.fromEntries(limits.filter((l) => l.request === "boot").map((l) => [l.field, l.most]));
  return { flavors, capabilities: items, most, defaults, choices, project, model };
}

// BootForm keeps what is typed, and asks what would become of it.
class BootForm extends Component {
  constructor(props) {
    super(props);
    const { model, flavors } = props.data;
    this.state = { form: model ? like(model, flavors) : { ...empty(), flavor: flavors[0].name }, wrong: {}, would: null, busy: false };
  }

  componentDidMount() { this.explain(); }

  componentWillUnmount() { clearTimeout(this.timer); }

  componentDidUpdate(before) {
    if (before.data !== this.props.data && !this.settled) this.explain(); // as often as the page reads
  }

  flavor() {
    return this.props.data.flavors.find((f) => f.name === this.state.form.flavor);
  }

  // explain asks for what is typed; only the last answer counts.
  async explain() {
    const mine = this.asking = {};
    const { form } = this.state;
    let would, wrong = {};
    try {
      would = await call("POST", "/v1/placements", { body: asked(form, this.flavor(), this.props.data.project) });
    } catch (problem) {
      wrong = this.faults(problem);
      this.settled = settled(problem);
    }
    if (this.asking === mine) this.setState({ would: would || null, asked: wrong });
  }

  faults(problem) {
    return faults(problem.says || { detail: String(problem) }, this.props.data.capabilities.map((c) => c.axis));
  }

  set(change) {
    this.key = ""; // another machine than the one that was asked for
    this.settled = false;
    this.setState({ form: { ...this.state.form, ...change }, wrong: {} });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.explain(), 200);
  }

  typed = (e) => this.set({ [e.target.name]: e.target.value });

  submit = async (e) => {
    e.preventDefault();
    this.setState({ busy: true, wrong: {} });
    const { project } = this.props.data;
    this.key ||= newKey(); // if the answer is lost and Boot is pressed again, it is the same machine
    try {
      const i = await call("POST", "/v1/instances", { key: this.key, body: body(this.state.form, this.flavor(), project) });
      this.props.ctx.go(["instances", i.id], { project: i.project });
    } catch (problem) {
      this.setState({ busy: false, wrong: this.faults(problem) }, show);
    }
  };

  errors(name) {
    return this.state.wrong[name] || this.state.asked?.[name];
  }

  field(name, label, more = {}, children) {
    return h(Field, { name, label, value: this.state.form[name], onInput: this.typed, errors: this.errors(name), ...more }, children);
  }

  axis(c) {
    const now = this.state.form.with[c.axis] || "";
    const option = (value, words) => h("label", { key: value },
      h("input", { type: "radio", name: "with-" + c.axis, value, checked: now === value, onChange: () => this.set({ with: { ...this.state.form.with, [c.axis]: value } }) }), words);
    const wrong = this.errors("with." + c.axis);
    return h("fieldset", { key: c.axis, class: "field" }, h("legend", null, c.axis),
      h("div", { class: "choices" }, option("", "any"), c.values.map((v) => option(v.value, v.value))),
      wrong && h("p", { class: "error" }, wrong.join("; ")));
  }

  metadata() {
    const rows = this.state.form.metadata;
    const put = (i, pair) => this.set({ metadata: rows.map((r, n) => (n === i ? pair : r)) });
    return h("fieldset", { class: "field" }, h("legend", null, "Labels"), rows.map(([k, v], i) => h("div", { class: "pair", key: i },
      h("input", { "aria-label": `name of label ${i + 1}`, value: k, onInput: (e) => put(i, [e.target.value, v]) }),
      h("input", { "aria-label": `value of label ${i + 1}`, value: v, onInput: (e) => put(i, [k, e.target.value]) }),
      h("button", { type: "button", "aria-label": `leave out label ${i + 1}`, onClick: () => this.set({ metadata: rows.filter((_, n) => n !== i) }) }, "×"))),
      h("button", { type: "button", onClick: () => this.set({ metadata: [...rows, ["", ""]] }) }, "Add a label"),
      this.errors("metadata") && h("p", { class: "error" }, this.errors("metadata").join("; ")));
  }

  render({ data }, { form, would, busy }) {
    const flavor = this.flavor();
    const axes = data.capabilities.filter((c) => flavor?.capabilities?.includes(c.axis));
    const other = this.errors("");
    return h("div", { class: "split" }, h(Card, null, h("form", { onSubmit: this.submit, novalidate: true },
      this.field("name", "Name", { hint: "For people. It need not be the only one." }),
      this.field("flavor", "Flavor", { hint: flavor && amounts(flavor.resources), onInput: undefined, onChange: this.typed },
        data.flavors.map((f) => h("option", { key: f.name, value: f.name, selected: f.name === form.flavor }, f.name))),
      axes.map((c) => this.axis(c)),
      this.field("image", "Image", { hint: "As the hypervisor finds it; left empty, the driver's default." }),
      this.field("ssh_keys", "SSH keys", { type: "textarea", hint: "Who may log in: one public key on each line." }),
      h("details", { class: "field", open: Boolean(data.model) },
        h("summary", null, "More"),
        this.metadata(),
        this.field("user_data", "User data", { type: "textarea", hint: "For its first start, as cloud-init takes it." }),
        this.field("on_no_capacity", "If no host has room", { onInput: undefined, onChange: this.typed },
          data.choices.map((c) => h("option", { key: c.name, value: c.name, selected: c.name === (form.on_no_capacity || data.defaults.on_no_capacity) }, c.means))),
        this.field("priority", "Priority", { onInput: undefined, onChange: this.typed, hint: "Which is served first where there is not room for all." },
          ["low", "normal", "high"].map((p) => h("option", { key: p, value: p, selected: p === (form.priority || "normal") }, p))),
        this.field("preemptible", "If its place is wanted", { onInput: undefined, onChange: this.typed, hint: "For work of normal or high priority; what may be taken away is of low priority." },
          [["", "it keeps it"], ["delete", "it is deleted"], ["requeue", "it waits in its queue again"]].map(([p, means]) => h("option", { key: p, value: p, selected: p === form.preemptible }, means))),
        this.field("deadline", "Deadline", { placeholder: data.defaults.deadline, hint: "How long it may wait, as in 90s, 10m or 1h30m; " + `at most ${data.most.deadline / 3600}h.` }),
        this.field("attempts", "Attempts", { type: "number", min: 1, max: data.most.attempts, placeholder: String(data.defaults.attempts) }),
        this.field("host", "Only on host", { hint: operates() ? "" : "As your instances show it." }),
        this.field("avoid", "Never on hosts", { hint: "Several with spaces between them." })),
      other && h(Note, { kind: "bad", role: "alert" }, other.join("; ")),
      h("button", { class: "main", disabled: busy }, "Boot"))),
    h("div", { class: "follow" }, h(Would, { would })));
  }
}

// show brings the first field that is wrong into view.
function show() {
  const field = document.querySelector("[aria-invalid=true]");
  const folded = field?.closest("details");
  if (folded) folded.open = true;
  field?.focus();
}

// toGo says without which machines it would fit. What they are is for operators.
const toGo = (g) => g && `it would fit without ${plural(g.machines, "machine")}` + (g.resources ? ` (${amounts(g.resources)})` : "") +
  (g.host ? ` on ${g.host}: ${g.instances.map((i) => `${i.name || shortID(i.id)} of ${i.project}`).join(", ")}` : "");

const limited = (q) => q.limit !== undefined;
const quota = (q) => `${className(q.class)}: ${usage(q.class, q.would_be, q.limit)}`;

// Would says what would become of the machine.
const Would = ({ would, kind = would?.kinds[0] }) => h(Card, { title: "What would become of it" }, !would
  ? h("p", { class: "dim" }, "It cannot be said yet: something beside is missing or wrong.")
  : [h("div", { "aria-live": "polite" }, h("p", null, h("span", { class: "badge " + (would.starts ? "ok" : would.refused ? "bad" : "warn") },
    would.starts ? "starts now" : would.refused ? "refused" : "waits")), h("p", { class: "says" }, would.summary)),
  h(Facts, { of: [
    ["queue", kind.queue], ["uses", amounts(kind.resources)],
    ["quota then", would.quota.some(limited) && h(List, { of: would.quota.filter(limited).map(quota) })],
    ["in line", kind.place && (kind.place.position ? `behind ${plural(kind.place.position, "other")}` : "first")],
    ["room", !would.starts && toGo(kind.to_go)],
    ["you can", would.you_can.length > 0 && h(List, { of: would.you_can })],
    ["operators can", !would.starts && would.operators_can?.length > 0 && h(List, { of: would.operators_can })],
  ] }), h("h3", null, "What the hosts are to it"), h(Standings, { hosts: kind.hosts })]);

export const view = (data, ctx) => [
  h(Head, { title: "Boot a machine", sub: `in project ${data.project}` }),
  !mayChange(data.project) ? h(Note, { kind: "warn" }, `Booting is for members of project ${data.project}, and your token has no such role.`)
    : !data.flavors.length ? h(Card, null, h(Empty, { title: "There are no flavors yet" }, "An admin offers one first: ",
      h("code", null, "berth flavor add m1.small --vcpus 1 --memory 2GiB --disk 20GiB")))
      : [data.model && h(Note, { kind: "warn" }, `Filled in as instance ${data.model.name || shortID(data.model.id)} was, but for: ${unlike(data.model, data.flavors).join("; ")}.`),
        h(BootForm, { data, ctx, key: JSON.stringify([data.project, data.model?.id]) })],
];
