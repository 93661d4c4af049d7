"use strict";
// Everything on the page is made with textContent: a name is a name, whatever it holds.

const $ = (id) => document.getElementById(id);
const NOTES = { empty: "empty", comma: "decimal commas?", date: "dates", few: "text, as 0/1 columns", text: "text", mark: "some text", mixed: "some text", dressed: "numbers with signs or units" };
const USABLE = new Set(["numbers", "few"]);
const WORTH_A_CHART = 1; // seconds of a search
const PAUSE = 400; // milliseconds between two looks at a search
let table = null, moments = [], watching = false, shownReport = false, maxBytes = Infinity;
let turn = Promise.resolve(); // one request that changes something after another

const short = (value) => Number(value.toPrecision(5)).toLocaleString(undefined, { maximumSignificantDigits: 5 });

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function complain(sentence) {
  $("error").textContent = sentence || "";
  $("error").hidden = !sentence;
  if (sentence) $("error").scrollIntoView({ block: "nearest" });
}

async function ask(path, body) {
  let reply;
  try {
    reply = await fetch(path, body === undefined ? {} : { method: "POST", body });
  } catch {
    throw new Error("polysharp serve does not answer; has it been ended in the terminal?");
  }
  const told = await reply.json();
  if (!reply.ok) throw new Error(told.error);
  return told;
}

function attempt(path, body, before = () => {}) {
  turn = turn.then(async () => {
    complain("");
    before();
    document.body.setAttribute("aria-busy", "true");
    try {
      show(await ask(path, body));
    } catch (error) {
      complain(error.message);
    } finally {
      document.body.removeAttribute("aria-busy");
    }
  });
  return turn;
}

const send = (path, chosen = {}) => attempt(path, JSON.stringify(chosen));

// The table.

async function take(file) {
  if (!file) return;
  if (file.size > maxBytes) {
    complain(`A table may have ${maxBytes.toLocaleString()} bytes here, and this one has ${file.size.toLocaleString()}; polysharp serve --max-size allows more.`);
    return;
  }
  await attempt(`table?name=${encodeURIComponent(file.name)}`, file, () => {
    for (const id of ["choice", "search", "result"]) $(id).hidden = true;
    table = undefined;
    $("name").textContent = file.name;
    $("size").textContent = "is being read …";
  });
  $("file").value = "";
}

function showTable(given) {
  if (JSON.stringify(given) === JSON.stringify(table)) return;
  table = given;
  $("table").hidden = !table;
  const columns = table ? table.columns : [];
  $("choice").hidden = !columns.length;
  if (!table) return;
  complain(table.error);
  $("name").textContent = table.name;
  $("size").textContent = columns.length ? `${table.rows.toLocaleString()} rows, ${columns.length} columns` : "could not be read";
  $("reading").open = !columns.length;
  for (const label of document.querySelectorAll(".text-only")) label.hidden = table.excel;
  for (const [name, value] of Object.entries(table.form)) {
    $("form").elements[name].value = name === "header" ? (value ? "yes" : "no") : value;
  }
  $("remarks").replaceChildren(...table.remarks.map((remark) => make("li", remark)));
  $("remarks").hidden = !table.remarks.length;
  showPreview(columns);
  showColumns(columns);
}

function showPreview(columns) {
  $("preview").replaceChildren();
  if (!columns.length) return;
  const grid = make("table"), head = make("tr"), body = make("tbody"), top = make("thead");
  for (const column of columns) head.append(make("th", column.name, { scope: "col" }));
  columns[0].cells.forEach((_, row) => {
    const line = make("tr");
    for (const column of columns) line.append(make("td", column.cells[row]));
    body.append(line);
  });
  top.append(head);
  grid.append(top, body);
  $("preview").append(grid);
}

function showColumns(columns) {
  const target = $("target"), inputs = $("inputs");
  target.replaceChildren(make("option", "choose one …", { value: "" }));
  inputs.replaceChildren();
  columns.forEach((column, index) => {
    if (column.kind === "numbers") target.append(make("option", column.name, { value: index }));
    const label = make("label"), box = make("input", undefined, { type: "checkbox", name: "inputs", value: index });
    box.checked = USABLE.has(column.kind);
    label.append(box, make("span", column.name));
    const notes = [NOTES[column.kind], column.missing ? `${column.missing.toLocaleString()} missing` : ""].filter(Boolean);
    if (notes.length) label.append(make("span", notes.join(", "), { class: "note" }));
    inputs.append(label);
  });
  $("gaps").hidden = !columns.some((column) => column.missing);
}

function chooseTarget() {
  for (const box of $("inputs").querySelectorAll("input")) box.disabled = box.value === $("target").value;
}

function chosen() {
  const fields = $("request").elements, number = (name) => (fields[name].value === "" ? null : Number(fields[name].value));
  const boxes = [...$("inputs").querySelectorAll("input")].filter((box) => box.checked && !box.disabled);
  return {
    target: number("target"), inputs: boxes.map((box) => Number(box.value)), missing: fields.missing.value,
    "max-terms": number("max-terms"), degree: number("degree"), "time-limit": number("time-limit"),
  };
}

// The search.

function showTask(task) {
  $("search").hidden = !task;
  $("result").hidden = !(task && task.result);
  $("go").disabled = Boolean(task && task.running);
  if (!task) return;
  $("now").textContent = task.stopping && task.running ? "stopping …" : task.now;
  $("now").hidden = $("stop").hidden = !task.running;
  $("stop").disabled = task.stopping;
  $("share").hidden = !task.running || task.share === null;
  if (task.share !== null) $("share").value = task.share;
  moments.push(...task.moments);
  showClosing();
  if (task.error) complain(task.error);
  if (task.result) showResult(task);
}

function showClosing() {
  const last = moments[moments.length - 1];
  $("closing").hidden = !last || last[2] === null;
  if ($("closing").hidden) return;
  $("course").hidden = last[1] < WORTH_A_CHART;
  const own = moments.filter((moment) => moment[0] === last[0] && moment[2] !== null);
  const down = (value) => { // never more than is proved
    const unit = 10 ** (Math.floor(Math.log10(value || 1)) - 5);
    return (Math.floor(value / unit) * unit).toLocaleString(undefined, { maximumSignificantDigits: 6 });
  };
  $("best").textContent = short(last[2]);
  $("bound").textContent = down(Math.min(last[3], last[2]));
  $("gap").textContent = `${(last[2] > last[3] ? (100 * (last[2] - last[3])) / last[2] : 0).toLocaleString(undefined, { maximumSignificantDigits: 2 })} %`;
  draw(own, short);
}

function draw(own, short) {
  const step = Math.ceil(own.length / 1000), some = own.filter((_, i) => i % step === 0 || i === own.length - 1);
  const [left, right, top, bottom] = [70, 625, 12, 190];
  const high = Math.max(...some.map((m) => m[2])), proved = Math.min(high, ...some.map((m) => m[3]).filter((bound) => bound > 0));
  const low = high - proved > 1e-3 * high ? Math.max(0, proved - 0.15 * (high - proved)) : 0; // where bounds begin to say something
  const end = Math.max(own[own.length - 1][1], 0.1), span = high - low || Math.abs(high) || 1;
  const x = (seconds) => (left + ((right - left) * seconds) / end).toFixed(1);
  const y = (value) => (bottom - ((bottom - top) * (Math.max(value, low) - low)) / span).toFixed(1);
  const steps = (which) => some.map((m, i) => (i ? `H${x(m[1])}V` : `M${x(m[1])},`) + y(m[which])).join("") + `H${right}`;
  const svg = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text) element.textContent = text;
    return element;
  };
  $("chart").replaceChildren(
    $("chart-title"),
    svg("path", { class: "axis", d: `M${left},${top}V${bottom}H${right}` }),
    svg("path", { class: "line thick second", d: steps(3) }),
    svg("path", { class: "line thick first", d: steps(2) }),
    svg("text", { x: left - 8, y: top + 8, "text-anchor": "end" }, short(high)),
    svg("text", { x: left - 8, y: bottom, "text-anchor": "end" }, short(low)),
    svg("text", { x: left, y: bottom + 20 }, "0 s"),
    svg("text", { x: right, y: bottom + 20, "text-anchor": "end" }, `${end.toFixed(1)} s`),
  );
}

function showResult(task) {
  const { result } = task, names = { report: "Download the report", model: "Download the model", proof: "Download the proof" };
  $("verdict").textContent = result.proved && result.stopped ? "Proved best of its size; the comparison of sizes was stopped" : result.proved ? "Proved best" : result.stopped ? "Stopped: the best formula found so far" : "The best formula found; the proof was not completed in time";
  $("verdict").className = `badge ${result.proved ? "good" : "open"}`;
  const second = result.verdict;
  $("second-verdict").hidden = !second;
  $("second-verdict").textContent = second ? second.badge : "";
  $("second-verdict").className = `badge ${second ? second.grade : ""}`;
  $("sentence").textContent = second ? second.sentence : "";
  $("formula").textContent = result.formula;
  showInputs(result.inputs);
  $("said").textContent = `${task.said}\n${task.remarks}`.trim();
  $("downloads").replaceChildren();
  for (const what of ["report", "model", "proof"]) {
    if (result.files.includes(what)) $("downloads").append(make("a", names[what], { href: `download/${what}`, download: "" }));
  }
  if (result.files.includes("report")) {
    $("downloads").append(make("a", "Open the report in a tab", { href: "report", target: "_blank", rel: "noopener" }));
    if (!shownReport) $("report").src = "report";
    $("report").hidden = false;
  }
  shownReport = true;
}

function showInputs(inputs) {
  $("predict").hidden = !inputs.length;
  if ($("values").childElementCount) return; // of the same result
  $("predicted").textContent = $("outside").textContent = "";
  for (const { name, low, high } of inputs) {
    const label = make("label", `${name} (${short(low)} to ${short(high)} in the table)`);
    label.append(make("input", undefined, { type: "number", step: "any", required: "", value: Number(((low + high) / 2).toPrecision(3)) }));
    $("values").append(label);
  }
}

async function predict() {
  const values = [...$("values").querySelectorAll("input")].map((input) => Number(input.value));
  try {
    const told = await ask("predict", JSON.stringify({ values }));
    $("predicted").textContent = `${told.response} = ${told.value}${told.half ? ` ± ${told.half}` : ""}`;
    $("outside").textContent = told.outside ? `outside the range of the table: ${told.outside}` : told.half ? "nine of ten new rows lie within" : "";
  } catch (error) {
    complain(error.message);
  }
}

async function watch() {
  if (watching) return;
  watching = true;
  try {
    for (let running = true; running; ) {
      await new Promise((done) => setTimeout(done, PAUSE));
      const told = await ask(`state?since=${moments.length}`);
      show(told, true);
      running = told.task !== null && told.task.running;
    }
    if (!$("result").hidden) $("result-heading").scrollIntoView();
  } catch (error) {
    complain(error.message);
  } finally {
    watching = false;
  }
}

function show(told, more = false) {
  maxBytes = told.max_bytes;
  if (!more) moments = [];
  if (!told.task || told.task.running) {
    shownReport = false;
    $("values").replaceChildren();
    $("report").hidden = true;
    if ($("report").src) $("report").removeAttribute("src");
  }
  showTable(told.table);
  showTask(told.task);
  if (told.task && told.task.running) watch();
}

$("file").addEventListener("change", (event) => take(event.target.files[0]));
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    document.body.classList.toggle("over", kind.startsWith("drage") || kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files[0]);
  });
}
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = Object.fromEntries(new FormData(event.target));
  send("read", { ...form, header: form.header === "yes" });
});
$("request").addEventListener("submit", (event) => {
  event.preventDefault();
  send("fit", chosen());
});
$("predict").addEventListener("submit", (event) => {
  event.preventDefault();
  predict();
});
$("target").addEventListener("change", chooseTarget);
for (const [id, value] of [["all", true], ["none", false]]) {
  $(id).addEventListener("click", () => { for (const box of $("inputs").querySelectorAll("input")) box.checked = value; });
}
$("stop").addEventListener("click", () => { $("stop").disabled = true; ask("stop", "{}").catch((error) => complain(error.message)); });
$("forget").addEventListener("click", () => send("forget"));
attempt("state");
