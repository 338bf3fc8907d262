package kubetest

// Annotations of a pod choose its behaviour on a simulated node. All are optional. Ended
// containers are restarted as the pod's restartPolicy says, after a back-off of 10 s that
// doubles up to 5 minutes, as the kubelet does.
const (
	// StartDelay is how long the containers take to start, such as "5s". Default: none.
	StartDelay = "simulate.pintle.dev/start-delay"
	// RunFor is how long the containers run before they end, such as "1m". Default: for
	// ever or, with a restartPolicy other than Always, not at all.
	RunFor = "simulate.pintle.dev/run-for"
	// ExitCode is the containers' exit code. Default: 0. Without RunFor, any exit code
	// makes the containers end as soon as they start.
	ExitCode = "simulate.pintle.dev/exit-code"
)

// NodeLabel is a label of every simulated node, with the value "true", for node selectors
// and affinities.
const NodeLabel = "simulate.pintle.dev/node"
