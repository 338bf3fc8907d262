// Package ready tells whether an object is ready, by the rules of its kind.
//
//	d, err := deployments.Until(ctx, "web", ready.Is)
//
// [Of] returns a [State]: ready, waiting or failed, with a message for people such
// as "0 of 2 replicas available". [Is], [HasFailed] and [HasEnded] are conditions for
// [kube.Reader.Until]; they are counterparts of kube-rs's wait::conditions.
//
// # Rules
//
// The rules for workloads are those of kubectl rollout status. Beside these, all replicas
// are available, and none is left to remove. A status that is older than the spec
// (status.observedGeneration) is never ready. An object whose deletion has begun is never
// ready.
//
//   - Deployment: all replicas are updated and available, and no old one is left.
//     Failed: the progress deadline is exceeded.
//   - StatefulSet: all replicas are ready and available, and those that the update
//     strategy updates are updated, also if a rollout is taken back.
//   - DaemonSet: a pod is updated and available on each node that needs one.
//   - ReplicaSet, ReplicationController: all replicas are available, and no more exist.
//   - Pod: it is Ready or has succeeded. Failed: its phase is Failed.
//   - Job: it is complete. Failed: it has the condition Failed. A suspended Job may be
//     either, if its pods ended so.
//   - CronJob: it exists.
//   - Service: a LoadBalancer has an address; any other Service has its cluster IP.
//   - PersistentVolumeClaim: it is bound. Failed: it has lost its volume.
//   - PersistentVolume: it is available or bound. Failed: its phase is Failed.
//   - Namespace: it is active.
//   - MutatingWebhookConfiguration, ValidatingWebhookConfiguration: each webhook has
//     a CA bundle.
//   - CustomResourceDefinition: it is established. Failed: its names are taken.
//   - APIService: if a Service backs it, it is available.
//   - Node, ServiceCIDR: the condition Ready is True.
//   - Any other kind: its condition Ready is True or, if it has none, its condition
//     Available. If it has neither, it is ready as soon as it exists; an object of a custom
//     kind whose Go type has status.conditions or status.observedGeneration, as soon as its
//     controller has written any status.
//
// Any Go type works: the types of k8s.io/api, structs with status.conditions of
// their own, views, and unstructured objects. A view must name the fields that the
// rule of its kind reads, or the rule takes them for zero. The rule for any other
// kind holds for a view whose Go type is not the kind's own. A view without
// status.conditions is ready as soon as it exists.
//
// # Caveat
//
// The server empties the status of an object that is created. So an unstructured object of a
// custom kind is ready until its controller has written a condition. If the controller always
// writes one, a rule should ask for it.
package ready
