//! A block device as it is written in scenarios and on the command line: a known kind, or the numbers of one.

use std::fmt;
use std::str::FromStr;

use super::device::{BlockModel, DeviceKind, DeviceModel, transfer_time};
use crate::costs::Costs;
use isotherm_units::{Bytes, Duration, UnitError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A device of a known kind (`nvme`), or one by its numbers (`latency=4ms,bandwidth=30MiB/s,queue=1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceConfig {
    /// A known kind, with the numbers of the cost table.
    Kind(DeviceKind),
    /// A drive without moving parts, with numbers of the user's own.
    Numbers(DeviceNumbers),
}

/// A drive without moving parts: reads and writes cost the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceNumbers {
    /// Time of a request of one page (4 KiB) on the idle device, its transfer included. 1 us to 10 s, and at least the transfer
    /// of a page at this bandwidth.
    pub latency: Duration,
    /// Bytes that it moves in a second, however many requests there are. 64 KiB to 1 TiB.
    pub bandwidth: Bytes,
    /// Requests that it serves at the same time; others wait. 1 to 1024. If left out: 1, the device that is worst under load.
    pub queue: u32,
    /// The part of `latency` in which it serves no other request. If left out: 0. At most what the transfer of a page leaves of `latency`.
    pub request: Duration,
}

/// Why a text does not describe a device. The text names the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDevice {
    /// No kind, and no numbers either.
    #[error("`{text}` is no device{}; allowed: none, ram, zram, nvme, ssd, disk, or numbers as in `{EXAMPLE}`", hint(.suggestion))]
    Unknown {
        text: String,
        /// The kind most like it.
        suggestion: Option<&'static str>,
    },
    /// A part that is not `key=value`.
    #[error("device `{text}`: `{part}` is not `key=value`; allowed: {ALLOWED}, as in `{EXAMPLE}`")]
    NoPair {
        text: String,
        /// Between two commas.
        part: String,
    },
    /// A key that is none.
    #[error("device `{text}`: no number is called `{key}`{}; allowed: {ALLOWED}", hint(.suggestion))]
    UnknownKey {
        text: String,
        /// The part before `=`.
        key: String,
        /// The key most like it.
        suggestion: Option<&'static str>,
    },
    /// A key is there twice.
    #[error("device `{text}`: `{key}` is given twice; give it once")]
    Twice { text: String, key: &'static str },
    /// A key that is needed is not there.
    #[error("device `{text}`: `{key}` is missing; give it, as in `{EXAMPLE}`")]
    Missing { text: String, key: &'static str },
    /// A value that cannot be read.
    #[error("device `{text}`: `{key}` is `{value}`; allowed: {allowed}")]
    Value {
        text: String,
        key: &'static str,
        /// The part after `=`.
        value: String,
        /// The allowed values.
        allowed: String,
    },
}

const EXAMPLE: &str = "latency=4ms,bandwidth=30MiB/s,queue=1";
const ALLOWED: &str = "latency, bandwidth, queue, request";
const LATENCY: (Duration, Duration) = (Duration::from_us(1), Duration::from_secs(10));
const BANDWIDTH: (Bytes, Bytes) = (Bytes::from_kib(64), Bytes::from_gib(1024));
const QUEUE_MAX: u32 = 1024;

fn hint(suggestion: &Option<&'static str>) -> String {
    suggestion.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

fn nearest(wrong: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    // Comparing takes the product of both lengths.
    let scored =
        names.into_iter().filter(|_| wrong.len() <= 100).map(|name| (strsim::damerau_levenshtein(wrong, name), name));
    scored.min_by_key(|&(distance, _)| distance).filter(|&(distance, _)| distance <= 2).map(|(_, name)| name)
}

impl DeviceConfig {
    /// Model of the device. Numbers of a known kind come from `costs`.
    pub fn model(self, costs: &Costs) -> DeviceModel {
        match self {
            Self::Kind(kind) => DeviceModel::preset(kind, costs),
            Self::Numbers(numbers) => DeviceModel::Block(numbers.model()),
        }
    }

    /// The known kind; `None` for numbers.
    pub const fn kind(self) -> Option<DeviceKind> {
        match self {
            Self::Kind(kind) => Some(kind),
            Self::Numbers(_) => None,
        }
    }
}

impl DeviceNumbers {
    fn model(self) -> BlockModel {
        let both = (self.latency.ns(), self.bandwidth.get());
        let idle = BlockModel::idle(both, both, self.queue);
        let [read_latency, write_latency] =
            [idle.read_latency, idle.write_latency].map(|before_data| before_data.saturating_sub(self.request));
        BlockModel { read_latency, write_latency, request_time: self.request, ..idle }
    }

    fn parse(text: &str) -> Result<Self, BadDevice> {
        let whole = || text.to_owned();
        let (mut latency, mut bandwidth, mut queue, mut request) = (None, None, None, None);
        for part in text.split(',').map(str::trim) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(BadDevice::NoPair { text: whole(), part: part.to_owned() });
            };
            let (key, value) = (key.trim(), value.trim());
            let bad = |key, allowed| BadDevice::Value { text: whole(), key, value: value.to_owned(), allowed };
            let is_second = match key {
                "latency" => latency.replace(read_latency(value).map_err(|allowed| bad("latency", allowed))?).is_some(),
                "bandwidth" => {
                    bandwidth.replace(read_bandwidth(value).map_err(|allowed| bad("bandwidth", allowed))?).is_some()
                }
                "request" => request.replace(read_request(value).map_err(|allowed| bad("request", allowed))?).is_some(),
                "queue" => queue.replace(read_queue(value).map_err(|allowed| bad("queue", allowed))?).is_some(),
                _ => {
                    let suggestion = nearest(key, ALLOWED.split(", "));
                    return Err(BadDevice::UnknownKey { text: whole(), key: key.to_owned(), suggestion });
                }
            };
            if is_second {
                let key = ALLOWED.split(", ").find(|known| *known == key).expect("one of the four");
                return Err(BadDevice::Twice { text: whole(), key });
            }
        }
        let latency = latency.ok_or_else(|| BadDevice::Missing { text: whole(), key: "latency" })?;
        let bandwidth = bandwidth.ok_or_else(|| BadDevice::Missing { text: whole(), key: "bandwidth" })?;
        let page = transfer_time(1, bandwidth.get());
        if latency < page {
            let allowed = format!("{page} and more, which a page takes at {bandwidth}/s");
            return Err(BadDevice::Value { text: whole(), key: "latency", value: latency.to_string(), allowed });
        }
        let request = request.unwrap_or(Duration::ZERO);
        let most = latency.saturating_sub(page);
        if request > most {
            let allowed = format!("0ns to {most}, which is `latency` less the transfer of a page");
            return Err(BadDevice::Value { text: whole(), key: "request", value: request.to_string(), allowed });
        }
        Ok(Self { latency, bandwidth, queue: queue.unwrap_or(1), request })
    }
}

/// The value, or the allowed values.
fn read_latency(value: &str) -> Result<Duration, String> {
    let (least, most) = LATENCY;
    let latency: Result<Duration, UnitError> = value.parse();
    let allowed = || format!("a time from {least} to {most}, as in `4ms`");
    latency.ok().filter(|latency| (least..=most).contains(latency)).ok_or_else(allowed)
}

fn read_request(value: &str) -> Result<Duration, String> {
    value.parse::<Duration>().map_err(|_| "a part of `latency`, as in `10us`".to_owned())
}

fn read_bandwidth(value: &str) -> Result<Bytes, String> {
    let (least, most) = BANDWIDTH;
    let bandwidth = value.strip_suffix("/s").and_then(|bytes| bytes.parse::<Bytes>().ok());
    let allowed = || format!("a size a second from {least}/s to {most}/s, as in `30MiB/s`");
    bandwidth.filter(|bandwidth| (least..=most).contains(bandwidth)).ok_or_else(allowed)
}

fn read_queue(value: &str) -> Result<u32, String> {
    let queue = value.parse::<u32>().ok().filter(|queue| (1..=QUEUE_MAX).contains(queue));
    queue.ok_or_else(|| format!("a whole number from 1 to {QUEUE_MAX}"))
}

impl FromStr for DeviceConfig {
    type Err = BadDevice;

    fn from_str(text: &str) -> Result<Self, BadDevice> {
        if text.contains('=') {
            return DeviceNumbers::parse(text).map(Self::Numbers);
        }
        let unknown = |_| {
            let suggestion = nearest(text, DeviceKind::ALL.map(DeviceKind::name));
            BadDevice::Unknown { text: text.to_owned(), suggestion }
        };
        text.parse().map(Self::Kind).map_err(unknown)
    }
}

impl fmt::Display for DeviceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => kind.fmt(f),
            Self::Numbers(numbers) => numbers.fmt(f),
        }
    }
}

impl fmt::Display for DeviceNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "latency={},bandwidth={}/s,queue={}", self.latency, self.bandwidth, self.queue)?;
        if self.request > Duration::ZERO { write!(f, ",request={}", self.request) } else { Ok(()) }
    }
}

impl From<DeviceKind> for DeviceConfig {
    fn from(kind: DeviceKind) -> Self {
        Self::Kind(kind)
    }
}

impl PartialEq<DeviceKind> for DeviceConfig {
    fn eq(&self, kind: &DeviceKind) -> bool {
        self.kind() == Some(*kind)
    }
}

impl Serialize for DeviceConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::device::{Device, Transfer};
    use isotherm_units::Instant;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        text.parse::<DeviceConfig>().unwrap_err().to_string()
    }

    #[test]
    fn kinds_and_numbers_are_read_and_printed() {
        for kind in DeviceKind::ALL {
            assert_eq!(kind.name().parse(), Ok(DeviceConfig::Kind(kind)));
            assert_eq!(DeviceConfig::Kind(kind).to_string(), kind.name());
        }
        let (latency, bandwidth) = (Duration::from_ms(4), Bytes::from_mib(30));
        let request = Duration::ZERO;
        for (text, queue) in [
            ("latency=4ms,bandwidth=30MiB/s,queue=32", 32),
            (" queue = 32 , bandwidth = 30MiB/s,latency=4ms", 32),
            ("latency=4ms,bandwidth=30MiB/s", 1),
        ] {
            assert_eq!(
                text.parse(),
                Ok(DeviceConfig::Numbers(DeviceNumbers { latency, bandwidth, queue, request })),
                "{text}"
            );
        }
    }

    /// 4 ms for a page; of the eight pages of a second request the first 4 KiB are in the 4 ms, seven more take 130 208.4 ns each.
    #[test]
    fn a_device_by_numbers_takes_what_they_say() {
        let config: DeviceConfig = "latency=4ms,bandwidth=30MiB/s,queue=1".parse().unwrap();
        let mut device = Device::new(config.model(&Costs::default())).unwrap();
        assert!(!device.model().is_rotational() && !device.model().is_synchronous());
        for transfer in [Transfer::Read, Transfer::Write] {
            assert_eq!(device.submit(Instant::START, 0, transfer), Instant::START);
        }
        let config: DeviceConfig = "latency=100us,bandwidth=400MiB/s,queue=32,request=10us".parse().unwrap();
        let mut together = Device::new(config.model(&Costs::default())).unwrap();
        let ends = [0; 4].map(|_| together.submit(Instant::START, 1, Transfer::Read).ns());
        assert_eq!(ends, [100_000, 119_766, 139_532, 159_298], "10 us and the transfer of a page behind each other");
        let first = device.submit(Instant::START, 1, Transfer::Read);
        assert_eq!(first.ns(), 4_000_000);
        let second = device.submit(Instant::START, 8, Transfer::Write);
        assert!(second.since(first).ns().abs_diff(4_000_000 + 7 * 130_208) < 10, "waits for the first: {second}");
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let kinds =
            "allowed: none, ram, zram, nvme, ssd, disk, or numbers as in `latency=4ms,bandwidth=30MiB/s,queue=1`";
        let table = [
            ("", format!("`` is no device; {kinds}")),
            ("nvm", format!("`nvm` is no device; did you mean `nvme`?; {kinds}")),
            ("floppy", format!("`floppy` is no device; {kinds}")),
            ("latency=4ms", "device `latency=4ms`: `bandwidth` is missing; give it, as in `latency=4ms,".to_owned()),
            ("bandwidth=1GiB/s", "`latency` is missing".to_owned()),
            ("latency=4ms,", "`` is not `key=value`; allowed: latency, bandwidth, queue, request, as in ".to_owned()),
            (
                "latncy=4ms",
                "no number is called `latncy`; did you mean `latency`?; allowed: latency, bandwidth, queue, request"
                    .into(),
            ),
            ("colour=red", "no number is called `colour`; allowed: latency, bandwidth, queue, request".to_owned()),
            ("latency=4ms,latency=4ms", "`latency` is given twice; give it once".to_owned()),
            ("latency=4", "`latency` is `4`; allowed: a time from 1us to 10s, as in `4ms`".to_owned()),
            ("latency=0ms", "allowed: a time from 1us to 10s".to_owned()),
            ("latency=11s", "allowed: a time from 1us to 10s".to_owned()),
            ("latency=99999999999999999999s", "allowed: a time from 1us to 10s".to_owned()),
            ("bandwidth=30MiB", "allowed: a size a second from 64KiB/s to 1TiB/s, as in `30MiB/s`".to_owned()),
            ("bandwidth=0/s", "allowed: a size a second from 64KiB/s".to_owned()),
            ("bandwidth=2TiB/s", "allowed: a size a second from 64KiB/s".to_owned()),
            ("queue=0", "`queue` is `0`; allowed: a whole number from 1 to 1024".to_owned()),
            ("queue=1025", "allowed: a whole number from 1 to 1024".to_owned()),
            ("queue=-1", "allowed: a whole number from 1 to 1024".to_owned()),
            ("request=soon", "`request` is `soon`; allowed: a part of `latency`, as in `10us`".to_owned()),
            (
                "latency=4ms,bandwidth=4MiB/s,request=4ms",
                "`request` is `4ms`; allowed: 0ns to 3023.437us, which is `latency` less the transfer of a page"
                    .to_owned(),
            ),
            (
                "latency=10us,bandwidth=1MiB/s",
                "`latency` is `10us`; allowed: 3906.25us and more, which a page takes at 1MiB/s".into(),
            ),
        ];
        for (text, part) in table {
            assert!(error(text).contains(&part), "{text:?}: {}", error(text));
        }
    }

    proptest! {
        #[test]
        fn numbers_are_read_back(latency_us in 100u64..10_000_000, mib in 64u64..1_000_000, queue in 1u32..=1024) {
            let (latency, bandwidth) = (Duration::from_us(latency_us), Bytes::from_mib(mib));
            let request = Duration::from_us(latency_us / 4);
            let config = DeviceConfig::Numbers(DeviceNumbers { latency, bandwidth, queue, request });
            prop_assert_eq!(config.to_string().parse(), Ok(config));
        }

        #[test]
        fn garbage_is_an_error_or_a_device_that_works(text in "[latencybdwhqu=,.0-9msMiB/ ]{0,40}") {
            if let Ok(config) = text.parse::<DeviceConfig>() {
                prop_assert!(Device::new(config.model(&Costs::default())).is_ok());
            }
        }
    }
}
