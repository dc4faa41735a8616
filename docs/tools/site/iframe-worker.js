// The search of the site runs in a Worker. Browsers allow none for a page that was opened from a file, so this class takes
// its place there: it runs the script in a hidden frame. It ships with the site instead of being loaded from another host.
"use strict";

class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.onmessage = null;
    this.addEventListener("message", (event) => this.onmessage?.(event));
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.frame = frame;
    const inner = frame.contentWindow;
    inner.postMessage = (data) => this.dispatchEvent(message(data));
    inner.importScripts = (...scripts) =>
      scripts.reduce((loaded, script) => loaded.then(() => run(inner.document, script)), Promise.resolve());
    this.loaded = run(inner.document, url);
  }

  postMessage(data) {
    const inner = this.frame.contentWindow;
    const sent = message(data);
    this.loaded.then(() => inner.dispatchEvent(sent));
  }

  terminate() {
    this.frame.remove();
  }
}

// A copy, as for a Worker: the search changes the query that it gets, which would empty the search field of the page.
function message(data) {
  return new MessageEvent("message", { data: structuredClone(data) });
}

function run(page, url) {
  return new Promise((done, failed) => {
    const script = page.createElement("script");
    script.src = url;
    script.onload = done;
    script.onerror = () => failed(new Error(`${url} could not be loaded`));
    page.body.append(script);
  });
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
