//! Measures kube-rs's reflector: an ordinary program, set up as its documentation
//! shows. It is run like the other measured programs: the store's name is its argument,
//! and it writes the result to standard output. It reads no plan: it only fills the store.
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug)]
#[kube(
    group = "bench.example.com",
    version = "v1",
    kind = "Widget",
    namespaced,
    schema = "disabled",
    status = "WidgetStatus"
)]
#[serde(rename_all = "camelCase")]
struct WidgetSpec {
    title: String,
    description: Option<String>,
    replicas: i32,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    parts: Vec<WidgetPart>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct WidgetPart {
    name: String,
    supplier: String,
    count: i64,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
struct WidgetStatus {
    observed_generation: Option<i64>,
    phase: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

/// Three fields of a Pod, by hand.
#[derive(Serialize, Deserialize, Clone, Debug)]
struct PodView {
    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    #[serde(default)]
    spec: ViewSpec,
    #[serde(default)]
    status: ViewStatus,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
struct ViewSpec {
    node_name: Option<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
struct ViewStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

impl Resource for PodView {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;
    fn kind(_: &()) -> std::borrow::Cow<'_, str> {
        "Pod".into()
    }
    fn group(_: &()) -> std::borrow::Cow<'_, str> {
        "".into()
    }
    fn version(_: &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }
    fn plural(_: &()) -> std::borrow::Cow<'_, str> {
        "pods".into()
    }
    fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        &mut self.metadata
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Measured {
    objects: usize,
    sync: u128,
    #[serde(rename = "CPU")]
    cpu: u128,
    #[serde(rename = "PeakRSS")]
    peak_rss: u64,
}

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let name = std::env::args().nth(1).ok_or("usage: kubers STORE")?;
    let measured = match name.as_str() {
        "pods-cleared" => run::<Pod>().await?,
        "view" => run::<PodView>().await?,
        "widgets" => run::<Widget>().await?,
        other => return Err(format!("no store is called {other}").into()),
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

async fn run<K>() -> Result<Measured, Failure>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let (cpu, start) = (cpu_time()?, Instant::now());
    let client = Client::try_default().await?;
    let (store, writer) = reflector::store::<K>();
    let config = watcher::Config::default().streaming_lists();
    let events = watcher(Api::<K>::all(client), config)
        .default_backoff()
        .modify(|o| o.managed_fields_mut().clear());
    let events = reflector(writer, events);
    tokio::spawn(async move {
        events
            .map_err(|e| eprintln!("{e}"))
            .for_each(|_| async {})
            .await
    });
    store.wait_until_ready().await?;
    let (sync, cpu) = (start.elapsed().as_nanos(), cpu_time()? - cpu);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let objects = store.state().len();
    Ok(Measured {
        objects,
        sync,
        cpu: cpu.as_nanos(),
        peak_rss: status("VmHWM:")?,
    })
}

/// The user and system time of this process.
fn cpu_time() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit(')').next().ok_or("no stat")?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// A size from /proc/self/status, in bytes.
fn status(field: &str) -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(field))
        .ok_or("no such field")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
