"use strict";
// Everything here is a convenience: the page says it all without. Names are only ever set as text.
(() => {
  const model = JSON.parse(document.getElementById("model").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const count = model.states.length;
  const actions = model.actions.map((_, a) => a);
  const terminal = new Set(model.terminal);
  const untried = new Set(model.untried);
  let tried = actions.filter((a) => !untried.has(a));
  if (tried.length === 0) tried = actions;
  root.classList.add("js");

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  const spread = ([places, values], size) => {
    const full = new Array(size).fill(0);
    places.forEach((place, i) => { full[place] = values[i]; });
    return full;
  };

  // --- one graph at a time ---------------------------------------------------------------------------

  const figures = [...document.querySelectorAll("#figures > figure")];
  const drawings = figures.map((figure) => figure.querySelector(".scroll"));
  for (const details of document.querySelectorAll("details.static")) details.open = false;
  const show = (action) => figures.forEach((figure) => { figure.hidden = Number(figure.dataset.action) !== action; });
  byId("switch").addEventListener("change", (event) => show(Number(event.target.value)));
  const chosen = document.querySelector("#switch input:checked") || document.querySelector("#switch input");
  chosen.checked = true;
  show(Number(chosen.value));

  // --- the belief, step by step ----------------------------------------------------------------------

  const MOST_BARS = 12;
  const beliefs = model.steps.map((step) => spread(step.belief, count));
  const slider = byId("step");
  let now = 0;

  // The graph of the action just done, or of the one to come where an episode begins.
  const mapOf = (step) => {
    const source = drawings[Math.max(0, model.actions.indexOf(step.action))];
    if (!source || !source.querySelector(".graph")) return;
    const copy = source.cloneNode(true);
    copy.setAttribute("aria-hidden", "true");
    copy.removeAttribute("tabindex");
    copy.removeAttribute("role");
    const label = element("p", step.action === null ? "" : `graph of ${step.action}`, "tag");
    byId("map").replaceChildren(label, copy);
  };

  const draw = () => {
    const step = model.steps[now];
    const belief = beliefs[now];
    let said;
    if (step.action === null) {
      said = step.observation === null ? "an episode begins" : `an episode begins and shows ${step.observation}`;
    } else {
      const chance = step.chance > 0 ? `probability ${step.chance.toFixed(3)}` : "which the model had ruled out";
      said = `did ${step.action}, saw ${step.observation} (${chance})`;
    }
    byId("told").textContent = `Line ${now} of ${beliefs.length - 1}: ${said}`;
    slider.value = String(now);
    slider.setAttribute("aria-valuetext", `line ${now}: ${said}`);
    const order = belief.map((_, s) => s);
    if (count > MOST_BARS) order.sort((a, b) => belief[b] - belief[a] || a - b);
    const bars = byId("belief");
    bars.replaceChildren();
    for (const s of order.slice(0, MOST_BARS)) {
      const lane = element("div", undefined, "lane");
      const fill = element("div", undefined, "fill");
      fill.style.width = `${100 * belief[s]}%`;
      lane.append(fill);
      bars.append(element("span", model.states[s], "who"), lane, element("span", belief[s].toFixed(3), "much"));
    }
    if (count > MOST_BARS) bars.append(element("span", `the likeliest ${MOST_BARS} of ${count}`, "who"));
    mapOf(step.action !== null ? step : model.steps[now + 1] || step);
    for (const node of document.querySelectorAll(".graph .state")) {
      const held = node.querySelector(".held");
      const rim = node.querySelector(".rim");
      if (held && rim) held.setAttribute("r", String(Math.sqrt(belief[Number(node.dataset.state)]) * Number(rim.getAttribute("r"))));
    }
    byId("first").disabled = byId("back").disabled = now === 0;
    byId("next").disabled = now === beliefs.length - 1;
    if (outlook) tell();
  };
  const go = (step) => { now = Math.min(Math.max(step, 0), beliefs.length - 1); draw(); };
  slider.addEventListener("input", () => go(Number(slider.value)));
  byId("first").addEventListener("click", () => go(0));
  byId("back").addEventListener("click", () => go(now - 1));
  byId("next").addEventListener("click", () => go(now + 1));

  // --- goals: bounds as if the state became known after the next step -----------------------------------

  const TOLERANCE = 1e-7, ROUNDS = 20000;
  const moves = model.transitions;
  const shows = model.observations.map((rows) => rows.map((row) => spread(row, model.symbols.length)));
  let outlook = null;

  const goalOf = (choice) => {
    const number = Number(choice.slice(1));
    const there = new Array(count).fill(false);
    if (choice[0] === "s") there[number] = true;
    const reached = actions.map(() => new Array(count).fill(0));
    const stays = actions.map((a) => moves[a].map(([targets, chances], s) => {
      const kept = [[], []];
      targets.forEach((t, i) => {
        let success = 0;
        if (choice[0] === "s") success = t === number ? 1 : 0;
        else if (!terminal.has(s)) success = shows[a][model.emission === "departure" ? s : t][number];
        reached[a][s] += chances[i] * success;
        if (success < 1) { kept[0].push(t); kept[1].push(chances[i] * (1 - success)); }
      });
      return kept;
    }));
    return { there, reached, stays };
  };

  const ahead = ([targets, chances], values) => {
    let sum = 0;
    for (let i = 0; i < targets.length; i++) sum += chances[i] * values[targets[i]];
    return sum;
  };

  const iterate = (start, update, scale) => {
    let values = start;
    for (let round = 0; round < ROUNDS; round++) {
      const next = values.map((_, s) => update(values, s));
      let change = 0, largest = 0;
      for (let s = 0; s < count; s++) {
        change = Math.max(change, Math.abs(next[s] - values[s]));
        largest = Math.max(largest, Math.abs(values[s]));
      }
      values = next;
      if (change <= TOLERANCE * (scale === null ? 1 + largest : scale)) break;
    }
    return values;
  };

  const sureOf = (goal) => {
    let sure = new Array(count).fill(true);
    for (;;) {
      const allowed = actions.map((a) => goal.stays[a].map(([targets, chances]) =>
        tried.includes(a) && targets.every((t, i) => sure[t] || chances[i] <= 0)));
      let near = goal.there.slice();
      for (let grew = true; grew;) {
        grew = false;
        const wider = near.slice();
        for (let s = 0; s < count; s++) {
          if (near[s] || !sure[s]) continue;
          for (const a of tried) {
            const [targets, chances] = goal.stays[a][s];
            if (allowed[a][s] && (goal.reached[a][s] > 0 || targets.some((t, i) => near[t] && chances[i] > 0))) {
              wider[s] = true; grew = true; break;
            }
          }
        }
        near = wider;
      }
      if (near.every((is, s) => is === sure[s])) return { sure, allowed };
      sure = sure.map((is, s) => is && near[s]);
    }
  };

  const outlookOf = (choice) => {
    const g = model.discount;
    if (choice === "r") {
      const scale = 1 + Math.max(...model.rewards.flat().map(Math.abs));
      const earns = (a, s, values) => terminal.has(s) ? 0 : model.rewards[a][s] + g * ahead(moves[a][s], values);
      const best = iterate(new Array(count).fill(0), (values, s) => Math.max(...tried.map((a) => earns(a, s, values))), scale);
      return { values: actions.map((a) => best.map((_, s) => earns(a, s, best))), steps: null };
    }
    const goal = goalOf(choice);
    const worth = (a, s, values) => goal.there[s] ? 1 : goal.reached[a][s] + g * ahead(goal.stays[a][s], values);
    const best = iterate(goal.there.map(Number), (values, s) => Math.max(...tried.map((a) => worth(a, s, values))), 1);
    const { sure, allowed } = sureOf(goal);
    const takes = (a, s, counts) => goal.there[s] ? 0 : allowed[a][s] ? 1 + ahead(goal.stays[a][s], counts) : Infinity;
    const least = iterate(new Array(count).fill(0), (counts, s) =>
      sure[s] ? Math.min(...tried.map((a) => takes(a, s, counts))) : 0, null);
    return {
      values: actions.map((a) => best.map((_, s) => worth(a, s, best))),
      steps: actions.map((a) => least.map((_, s) => takes(a, s, least))),
    };
  };

  const at = (table, belief, a) => {
    let sum = 0;
    for (let s = 0; s < count; s++) if (belief[s] > 0) sum += belief[s] * table[a][s];
    return sum;
  };

  const tell = () => {
    const live = model.states.map((_, s) => terminal.has(s) ? 0 : 1);
    const size = live.reduce((a, b) => a + b, 0);
    const rows = [
      ["at the start", model.initial],
      ["knowing nothing", live.map((one) => one / size)],
      [`where the tracker stands (line ${now})`, beliefs[now]],
      ...model.states.map((name, s) => [`in state ${name}`, model.states.map((_, t) => t === s ? 1 : 0)]),
    ];
    const table = element("table");
    const head = element("tr");
    const titles = outlook.steps ? ["belief", "value, at most", "steps, at least", "first action by value"]
      : ["belief", "value, at most", "first action by value"];
    for (const title of titles) { const cell = element("th", title); cell.scope = "col"; head.append(cell); }
    const top = element("thead");
    top.append(head);
    const body = element("tbody");
    for (const [name, belief] of rows) {
      const worths = tried.map((a) => at(outlook.values, belief, a));
      const most = Math.max(...worths);
      const first = tried[worths.findIndex((worth) => worth >= most - 1e-9 * (1 + Math.abs(most)))];
      const row = element("tr");
      const who = element("th", name);
      who.scope = "row";
      row.append(who, element("td", most.toFixed(3)));
      let move = model.actions[first];
      if (outlook.steps) {
        const least = Math.min(...tried.map((a) => at(outlook.steps, belief, a)));
        row.append(element("td", Number.isFinite(least) ? least.toFixed(1) : "may be missed for ever"));
        if (least === 0) move = "there already";
        else if (most <= 0) move = "out of reach";
      }
      row.append(element("td", move));
      body.append(row);
    }
    table.append(top, body);
    const frame = element("div", undefined, "scroll");
    frame.append(table);
    byId("goal-table").replaceChildren(frame);
  };

  const goal = byId("goal"); // left out of pages about very large models
  const choose = () => {
    outlook = outlookOf(goal.value);
    const number = Number(goal.value.slice(1));
    for (const node of document.querySelectorAll(".state")) {
      node.classList.toggle("goal", goal.value[0] === "s" && Number(node.dataset.state) === number);
    }
    const said = goal.value === "r" ? "the rewards that were learned"
      : goal.value[0] === "s" ? `to come to state ${model.states[number]}` : `to see ${model.symbols[number]}`;
    byId("goal-told").textContent = `Goal: ${said}.`;
    tell();
  };
  if (goal) goal.addEventListener("change", choose);
  document.addEventListener("click", (event) => {
    const node = event.target instanceof Element ? event.target.closest(".state") : null;
    if (!node || !goal) return;
    goal.value = `s${node.dataset.state}`;
    choose();
  });

  draw();
  if (goal) choose();
})();
