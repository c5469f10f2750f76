//! Headless Chromium through a pipe, by the DevTools protocol: one JSON message a call, terminated by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine as _;
use serde_json::{Value, json};

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    calls: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: String,
    next: u64,
    /// Output of the page: uncaught errors, and lines of its console.
    pub(crate) said: Vec<String>,
    _profile: tempfile::TempDir,
}

/// Name of the program on this machine, if installed.
pub(crate) fn installed() -> Option<&'static str> {
    let is_there =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there)
}

impl Browser {
    pub(crate) fn start(name: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol's pipes are 3 and 4; its output is ignored.
        let line = format!(
            "exec {name} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe \
             --user-data-dir='{}' about:blank 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null",
            profile.path().display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let (calls, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser =
            Self { child, calls, answers, session: String::new(), next: 0, said: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let session = browser.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        session["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Calls a method and waits for its result; events in between are kept.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.calls.write_all((message.to_string() + "\0").as_bytes()).expect("the browser listens");
        loop {
            let heard = self.hear();
            if heard["id"] == json!(self.next) {
                assert!(heard["error"].is_null(), "{method}: {}", heard["error"]);
                return heard["result"].clone();
            }
        }
    }

    /// Reads messages until one is of an event, up to a few thousand.
    fn await_event(&mut self, event: &str) {
        for _ in 0..10_000 {
            if self.hear()["method"] == event {
                return;
            }
        }
        panic!("{event} never came");
    }

    fn hear(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).expect("the browser answers");
        assert!(bytes.pop() == Some(0), "the browser ended");
        let heard: Value = serde_json::from_slice(&bytes).expect("JSON");
        match heard["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.said.push(heard["params"]["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") => self.said.push(heard["params"]["args"].to_string()),
            Some("Log.entryAdded") => self.said.push(heard["params"]["entry"]["text"].to_string()),
            _ => {}
        }
        heard
    }

    /// Sets width and height, in pixels.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sets `light` or `dark`, and `screen` or `print`.
    pub(crate) fn look(&mut self, scheme: &str, medium: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "media": medium, "features": features }));
    }

    /// Opens a file and waits until all of its pictures are drawn.
    pub(crate) fn open(&mut self, page: &Path) {
        self.load(page);
        self.until("!document.querySelector('figure[data-heatmap]:not(.live),figure[data-chart]:not(.live)')");
        self.settle();
    }

    /// Waits until an expression is true on the page; half a minute is enough for a busy machine.
    pub(crate) fn until(&mut self, expression: &str) {
        for _ in 0..600 {
            if self.value(expression) == true {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("never true: {expression}");
    }

    /// Opens a file.
    pub(crate) fn load(&mut self, page: &Path) {
        self.call("Page.navigate", &json!({ "url": format!("file://{}", page.display()) }));
        self.await_event("Page.loadEventFired");
    }

    /// Waits until pending changes are drawn.
    pub(crate) fn settle(&mut self) {
        let drawn = "new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done(1))), 150))";
        let parameters = json!({ "expression": drawn, "awaitPromise": true });
        self.call("Runtime.evaluate", &parameters);
    }

    /// Value of an expression on the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", &parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Moves the pointer, presses and releases its button: `mouseMoved`, `mousePressed`, `mouseReleased`.
    pub(crate) fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        self.click(kind, x, y, 1);
    }

    /// The same, as the first or second click of two.
    pub(crate) fn click(&mut self, kind: &str, x: f64, y: f64, count: u32) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let event = json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": 1, "clickCount": count });
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// A picture of a part of the page, as PNG.
    pub(crate) fn picture(&mut self, [x, y, width, height]: [f64; 4]) -> Vec<u8> {
        let clip = json!({ "x": x, "y": y, "width": width, "height": height, "scale": 1 });
        let parameters = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let result = self.call("Page.captureScreenshot", &parameters);
        base64::engine::general_purpose::STANDARD.decode(result["data"].as_str().expect("a picture")).expect("base64")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
