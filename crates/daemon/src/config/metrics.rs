//! `[metrics]`: where metrics can be read (docs/use/operate.md#metrics).

use super::Config;
use super::check::{Contradiction, absolute, wrong};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The `[metrics]` table. Without the table no metrics are served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MetricsConfig {
    /// `unix:` and the path of a socket, or a loopback address with its port: `127.0.0.1:9464`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// A file for the textfile collector of a node's exporter, replaced each few seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub textfile: Option<String>,
}

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Path of a socket.
    Unix(String),
    /// An address that only this machine can reach.
    Loopback(SocketAddr),
}

impl MetricsConfig {
    /// Address at which they are served; `None` if they are not, and for an address that [`Config::check`] refuses.
    pub fn listen(&self) -> Option<Listen> {
        let text = self.listen.as_deref()?;
        match text.strip_prefix("unix:") {
            Some(path) => Some(Listen::Unix(path.to_owned())),
            None => text.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback()).map(Listen::Loopback),
        }
    }
}

impl Config {
    pub(super) fn check_metrics(&self) -> Result<(), Contradiction> {
        let Some(metrics) = &self.metrics else { return Ok(()) };
        match (&metrics.listen, metrics.listen()) {
            (None, _) | (_, Some(Listen::Loopback(_))) => {}
            (_, Some(Listen::Unix(path))) => absolute("metrics.listen", &path)?,
            (Some(text), None) => {
                let message = format!(
                    "`{text}` is no place to listen at; allowed: `unix:` and a full path, or a loopback address with its port, such as \
                     127.0.0.1:9464 or [::1]:9464: metrics name groups, which are nobody's business outside"
                );
                return Err(wrong("metrics.listen", message));
            }
        }
        if let Some(path) = &metrics.textfile {
            absolute("metrics.textfile", path)?;
        }
        if metrics.listen.is_none() && metrics.textfile.is_none() {
            let message = "it says no place for metrics; give it `listen`, `textfile`, or both";
            return Err(wrong("metrics", message.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_outside_this_machine_are_refused() {
        let at = |listen: &str| MetricsConfig { listen: Some(listen.to_owned()), textfile: None };
        let check = |metrics| Config { metrics: Some(metrics), ..Config::default() }.check();
        for good in ["unix:/run/isotherm/metrics.sock", "127.0.0.1:9464", "[::1]:9464", "127.3.2.1:1"] {
            assert_eq!(check(at(good)), Ok(()), "{good}");
            assert!(at(good).listen().is_some());
        }
        for bad in [
            "unix:metrics.sock",
            "unix:",
            "0.0.0.0:9464",
            "[::]:1",
            "192.168.0.1:9464",
            "localhost:9464",
            "127.0.0.1",
            "",
            "x",
        ] {
            assert_eq!(check(at(bad)).unwrap_err().key, "metrics.listen", "{bad}");
        }
        assert_eq!(check(MetricsConfig::default()).unwrap_err().key, "metrics");
        let file = |path: &str| check(MetricsConfig { textfile: Some(path.to_owned()), ..MetricsConfig::default() });
        assert_eq!((file("/var/lib/x.prom"), file("x.prom").is_err()), (Ok(()), true));
    }
}
