package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/pintle-go/pintle/kube"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	nodePrefix = "simulated-"
	// Label marks simulated nodes, for node selectors and affinities.
	Label = "simulate.pintle.dev/node"
	// roomForPods is the number of pods that all nodes together have room for.
	roomForPods    = 12_000
	minPodsPerNode = 250
	leaseDuration  = 40 * time.Second
	renewEvery     = 10 * time.Second
	postEvery      = 5 * time.Minute
)

type nodes struct {
	nodes  kube.Resource[corev1.Node]
	leases kube.Resource[coordinationv1.Lease]
	count  int
	logger *slog.Logger
}

func newNodes(client *kube.Client, o Options) *nodes {
	return &nodes{
		nodes:  kube.For[corev1.Node](client),
		leases: kube.For[coordinationv1.Lease](client).In(corev1.NamespaceNodeLease),
		count:  o.Nodes,
		logger: o.Logger,
	}
}

// isOurs reports whether a pod's node is simulated here.
func (n *nodes) isOurs(name string) bool {
	i, err := strconv.Atoi(strings.TrimPrefix(name, nodePrefix))
	return err == nil && strings.HasPrefix(name, nodePrefix) && i >= 0 && i < n.count
}

func nodeName(i int) string { return nodePrefix + strconv.Itoa(i) }

// create creates the nodes, makes them Ready, and deletes surplus ones.
func (n *nodes) create(ctx context.Context) error {
	for old, err := range n.nodes.Labeled(Label).List(ctx) {
		if err != nil {
			return err
		}
		if !n.isOurs(old.Name) {
			if err := n.nodes.Delete(ctx, old.Name); err != nil {
				return err
			}
		}
	}
	for i := range n.count {
		if err := n.lease(ctx, nodeName(i)); err != nil {
			return err
		}
		have, err := n.nodes.Apply(ctx, n.node(i))
		if err != nil {
			return err
		}
		if err := n.post(ctx, i, have); err != nil {
			return err
		}
	}
	return nil
}

// post posts the status of a node, unless the API server has it and it is not old. The node
// lifecycle controller sets the conditions of a dead node to Unknown, and leaves it to the node
// to set them back.
func (n *nodes) post(ctx context.Context, i int, have *corev1.Node) error {
	want, now := n.node(i), time.Now()
	current := true
	for k := range want.Status.Conditions {
		c, same := &want.Status.Conditions[k], false
		for _, h := range have.Status.Conditions {
			if h.Type == c.Type && h.Status == c.Status {
				c.LastTransitionTime = h.LastTransitionTime
				same = now.Sub(h.LastHeartbeatTime.Time) < postEvery
			}
		}
		current = current && same
	}
	if current {
		return nil
	}
	return n.nodes.Status().Apply(ctx, want)
}

func (n *nodes) node(i int) *corev1.Node {
	name := nodeName(i)
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1024"),
		corev1.ResourceMemory:           resource.MustParse("4Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("16Ti"),
		corev1.ResourcePods:             *resource.NewQuantity(int64(max(minPodsPerNode, roomForPods/n.count)), resource.DecimalSI),
	}
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: "simulated", LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			Label:                      "true",
			corev1.LabelHostname:       name,
			corev1.LabelOSStable:       "linux",
			corev1.LabelArchStable:     "amd64",
			corev1.LabelTopologyZone:   fmt.Sprintf("zone-%d", i%3),
			corev1.LabelTopologyRegion: "local",
		}},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room,
			Phase:       corev1.NodeRunning,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: nodeIP},
				{Type: corev1.NodeHostName, Address: name},
			},
			// No process listens on this port: logs and exec fail at once.
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 1}},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:          "v1.36.3-simulated",
				OperatingSystem:         "linux",
				Architecture:            "amd64",
				ContainerRuntimeVersion: "simulated://1",
			},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
		},
	}
}

func (n *nodes) lease(ctx context.Context, node string) error {
	now := metav1.NowMicro()
	_, err := n.leases.Apply(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &node,
			LeaseDurationSeconds: ptr.To(int32(leaseDuration / time.Second)),
			RenewTime:            &now,
		},
	})
	return err
}

// renew renews the nodes' leases until ctx ends. For the node lifecycle controller, a
// node whose lease has expired is dead: renew makes such a node Ready again.
func (n *nodes) renew(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for i := range n.count {
			if err := n.beat(ctx, i); err != nil && ctx.Err() == nil {
				n.logger.Warn("renew simulated node", "node", nodeName(i), "error", err)
			}
		}
	}
}

// beat shows that a node lives. A node that was deleted stays so.
func (n *nodes) beat(ctx context.Context, i int) error {
	if err := n.lease(ctx, nodeName(i)); err != nil {
		return err
	}
	have, err := n.nodes.Get(ctx, nodeName(i))
	if err == nil {
		err = n.post(ctx, i, have)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
