// Runs the script of an explorer page (its path is the argument) on a document that is as small as
// the script needs, clicks, and prints what is marked, as JSON.
"use strict";
const fs = require("fs");

class Element {
  constructor() {
    this.children = [];
    this.dataset = {};
    this.handlers = {};
    this.style = { setProperty() {} };
    this.classes = new Set();
    this.classList = {
      add: (name) => this.classes.add(name),
      toggle: (name, on) => (on ? this.classes.add(name) : this.classes.delete(name)),
    };
    this.text = "";
  }
  get textContent() { return this.text + this.children.map((child) => child.textContent).join(""); }
  set textContent(text) { this.text = String(text); }
  get childElementCount() { return this.children.length; }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  setAttribute() {}
  addEventListener(name, handler) { this.handlers[name] = handler; }
  scrollIntoView() { Element.scrolledTo = this; }
  querySelectorAll() { return this.children.filter((child) => child.classes.has("linked")); }
}

const page = fs.readFileSync(process.argv[2], "utf8");
const [data, script] = [...page.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)].map((m) => m[1]);
const elements = Object.fromEntries(
  [...page.matchAll(/id="(\w+)"/g)].map((found) => [found[1], new Element()]),
);
elements.data.text = data;
globalThis.document = {
  getElementById: (id) => elements[id],
  createElement: () => new Element(),
};
(0, eval)(`(function () {${script}})()`);

const { source, stage, stages } = elements;
const row = (pane, text) => pane.children.find((child) => child.textContent.includes(text));
const marked = (pane) =>
  pane.children.filter((child) => child.classes.has("on")).map((child) => child.textContent);
const result = { tabs: stages.children.map((tab) => tab.textContent) };
row(source, "tanh").handlers.click();
result.traced = marked(stage);
result.scrolledTo = Element.scrolledTo.textContent;
stages.children[3].handlers.click();
result.stablehlo = marked(stage);
row(source, "tanh").handlers.click();
result.unmarked = marked(stage);
stages.children[0].handlers.click();
row(stage, "gnomon.reduce_sum").handlers.click();
result.source = marked(source);
stages.children[stages.children.length - 1].handlers.click();
const step = stage.children[0];
step.open = true;
step.handlers.toggle();
result.pass = step.textContent;
console.log(JSON.stringify(result));
