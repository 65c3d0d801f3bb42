// Browsers start no Worker from a file:// page. There the search runs in a hidden frame instead, which looks like one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = this.onerror = null
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inner = this.frame.contentWindow
      inner.answer = data => {
        const event = new MessageEvent("message", {data})
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      inner.document.open()
      inner.document.write(`<script>
        var postMessage = data => setTimeout(() => answer(data))
        var importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, failed) => {
          const script = document.createElement("script")
          script.src = url
          script.onload = done
          script.onerror = () => failed(new Error(url))
          document.body.appendChild(script)
        })), Promise.resolve())
      </` + `script><body><script src="${new URL(url, location)}"></` + "script></body>")
      inner.document.close()
      this.frame.onload = () => {
        this.loaded = true
        this.waiting.forEach(data => this.postMessage(data))
      }
    }
    postMessage(data) {
      if (!this.loaded) return void this.waiting.push(data)
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}))
    }
    terminate() {
      this.frame.remove()
    }
  }
}
