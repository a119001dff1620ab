// Search in a site that is opened from a folder. Browsers start no worker from file:, so the search script runs in a
// hidden frame instead. The theme would fetch such a script from elsewhere; docs/hooks.py puts this one in its place.
(() => {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => this.load(one)), Promise.resolve());
      this.ready = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        this.inside.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => {
        const copy = this.inside.structuredClone(data);
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data: copy }));
      });
    }
  }

  window.IFrameWorker = window.Worker = FrameWorker;
})();
