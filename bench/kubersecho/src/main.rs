//! The Echo operator of operators/echo on kube-rs, as a user of kube-rs would write it: a
//! Controller with the finalizer helper, which applies a Deployment and a Service for each
//! Echo and reports in the status. It installs its definition when it starts.
//!
//! Compared with operators/echo it has no lease, no metrics, no health and readiness
//! endpoints, no events, no condition after a failed reconcile and no manifests. It sends a
//! request for each child in every reconcile, because kube-rs has no cache of children
//! beside the Controller's triggers. Its cleanup does not wait until the Service is gone.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, PodSpec, PodTemplateSpec, Probe, Service, ServicePort, ServiceSpec, TCPSocketAction,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, CustomResourceExt, KubeSchema, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::{info, warn};

const MANAGER: &str = "kubersecho";
const FINALIZER: &str = "example.com/kubersecho";
const PORT: i32 = 8080;

/// An Echo asks for echo servers behind a Service of its own name.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Echo",
    plural = "echoes",
    shortname = "echo",
    namespaced,
    status = "EchoStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    validation = Rule::new("self.metadata.name.matches('^[a-z][-a-z0-9]{0,62}$')").message("not a name for a Service")
)]
#[serde(rename_all = "camelCase")]
struct EchoSpec {
    /// Number of servers.
    #[schemars(range(min = 0))]
    replicas: i32,
    /// Image of the servers, which listen on port 8080.
    #[serde(default = "default_image")]
    #[schemars(length(min = 1))]
    image: String,
}

fn default_image() -> String {
    "inanimate/echo-server".into()
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct EchoStatus {
    replicas: i32,
    ready_replicas: i32,
    selector: String,
    conditions: Vec<Condition>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<Error>>),
}

async fn reconcile(echo: Arc<Echo>, client: Arc<Client>) -> Result<Action, Error> {
    let client = Client::clone(&client);
    let namespace = echo.namespace().unwrap_or_default();
    let echoes = Api::<Echo>::namespaced(client.clone(), &namespace);
    let services = Api::<Service>::namespaced(client.clone(), &namespace);
    let deployments = Api::<Deployment>::namespaced(client, &namespace);
    finalizer(&echoes, FINALIZER, echo, |event| async {
        match event {
            Event::Apply(echo) => apply(&echo, &echoes, &services, &deployments).await,
            Event::Cleanup(echo) => cleanup(&echo, &services).await,
        }
    })
    .await
    .map_err(|e| Box::new(e).into())
}

async fn apply(
    echo: &Echo,
    echoes: &Api<Echo>,
    services: &Api<Service>,
    deployments: &Api<Deployment>,
) -> Result<Action, Error> {
    let name = echo.name_any();
    let ours = PatchParams::apply(MANAGER).force();
    services
        .patch(&name, &ours, &Patch::Apply(service(echo)))
        .await?;
    let deployment = deployments
        .patch(&name, &ours, &Patch::Apply(deployment(echo)))
        .await?;
    let status = observed(echo, &deployment);
    if echo.status.as_ref() != Some(&status) {
        let patch = json!({"apiVersion": Echo::api_version(&()), "kind": Echo::kind(&()), "status": status});
        echoes
            .patch_status(&name, &ours, &Patch::Apply(patch))
            .await?;
    }
    Ok(Action::await_change())
}

/// Deletes the Service, so that no more requests arrive; then the garbage collector deletes
/// the servers.
async fn cleanup(echo: &Echo, services: &Api<Service>) -> Result<Action, Error> {
    match services
        .delete(&echo.name_any(), &DeleteParams::default())
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        other => drop(other?),
    }
    Ok(Action::await_change())
}

/// The status of an Echo that has this Deployment.
fn observed(echo: &Echo, deployment: &Deployment) -> EchoStatus {
    let seen = deployment.status.clone().unwrap_or_default();
    let answering = seen.ready_replicas.unwrap_or_default();
    let serving = answering.min(seen.updated_replicas.unwrap_or_default());
    let current = seen.observed_generation == deployment.metadata.generation;
    let before = echo.status.clone().unwrap_or_default();
    let mut ready = Condition {
        type_: "Ready".into(),
        status: if current && serving == echo.spec.replicas {
            "True"
        } else {
            "False"
        }
        .into(),
        reason: "Servers".into(),
        message: format!("{answering} of {} servers answer", echo.spec.replicas),
        observed_generation: echo.metadata.generation,
        last_transition_time: Time(Timestamp::now()),
    };
    if let Some(last) = before
        .conditions
        .iter()
        .find(|c| c.type_ == ready.type_ && c.status == ready.status)
    {
        ready.last_transition_time = last.last_transition_time.clone();
    }
    let labels = labels(echo);
    let selector: Vec<_> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    EchoStatus {
        replicas: seen.replicas.unwrap_or_default(),
        ready_replicas: answering,
        selector: selector.join(","),
        conditions: vec![ready],
    }
}

fn labels(echo: &Echo) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app.kubernetes.io/name".into(), "echo".into()),
        ("app.kubernetes.io/instance".into(), echo.name_any()),
    ])
}

fn meta(echo: &Echo) -> ObjectMeta {
    ObjectMeta {
        name: Some(echo.name_any()),
        namespace: echo.namespace(),
        labels: Some(labels(echo)),
        owner_references: echo.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..Default::default()
    }
}

fn service(echo: &Echo) -> Service {
    let port = ServicePort {
        name: Some("http".into()),
        port: 80,
        target_port: Some(IntOrString::Int(PORT)),
        ..Default::default()
    };
    let spec = ServiceSpec {
        selector: Some(labels(echo)),
        ports: Some(vec![port]),
        ..Default::default()
    };
    Service {
        metadata: meta(echo),
        spec: Some(spec),
        ..Default::default()
    }
}

fn deployment(echo: &Echo) -> Deployment {
    let listens = TCPSocketAction {
        port: IntOrString::Int(PORT),
        ..Default::default()
    };
    let server = Container {
        name: "echo".into(),
        image: Some(echo.spec.image.clone()),
        readiness_probe: Some(Probe {
            tcp_socket: Some(listens),
            ..Default::default()
        }),
        ..Default::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(echo)),
            ..Default::default()
        }),
        spec: Some(PodSpec {
            containers: vec![server],
            ..Default::default()
        }),
    };
    let spec = DeploymentSpec {
        replicas: Some(echo.spec.replicas),
        selector: LabelSelector {
            match_labels: Some(labels(echo)),
            ..Default::default()
        },
        template,
        ..Default::default()
    };
    Deployment {
        metadata: meta(echo),
        spec,
        ..Default::default()
    }
}

/// Installs the definition and waits until the server serves the kind.
async fn install(client: Client) -> Result<(), Box<dyn std::error::Error>> {
    let definitions = Api::<CustomResourceDefinition>::all(client);
    let name = Echo::crd_name();
    definitions
        .patch(
            name,
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(Echo::crd()),
        )
        .await?;
    let established = await_condition(definitions, name, conditions::is_crd_established());
    tokio::time::timeout(Duration::from_secs(30), established).await??;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let client = Client::try_default().await?;
    install(client.clone()).await?;
    Controller::new(Api::<Echo>::all(client.clone()), watcher::Config::default())
        .owns(
            Api::<Deployment>::all(client.clone()),
            watcher::Config::default(),
        )
        .owns(
            Api::<Service>::all(client.clone()),
            watcher::Config::default(),
        )
        .with_config(Config::default().concurrency(16))
        .shutdown_on_signal()
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(5)),
            Arc::new(client),
        )
        .for_each(|result| async {
            match result {
                Ok((echo, _)) => info!(%echo, "reconciled"),
                Err(error) => warn!(%error, "reconcile failed"),
            }
        })
        .await;
    Ok(())
}
