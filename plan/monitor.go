package plan

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/metrics"
)

// Monitor makes events and metrics of the plans of all owners. A program has one, which it
// sets as [Plan.Monitor]. Java Operator SDK and kro have no counterpart.
//
// Events are recorded on the owner, for transitions only: when it becomes ready, and when it
// is no longer ready; when a node fails or is degraded, and when such a node is ready again. One more
// tells that a thing was there, is gone, and is created again.
//
// The metrics are, with the kind of the owner as in Shop.example.com:
//
//	pintle_plan_nodes{kind,state}          nodes in a state
//	pintle_plan_oldest_wait_seconds{kind}  how long the node has waited that waits longest; it is
//	                                       waiting, blocked, degraded, failed or being deleted
//	pintle_plan_ready_seconds{kind}        distribution: how long an owner was not ready
type Monitor struct {
	events *event.Recorder
	nodes  *metrics.Family[metrics.Gauge]
	oldest *metrics.Family[metrics.Gauge]
	took   *metrics.Family[metrics.Histogram]

	mu     sync.Mutex
	owners map[types.UID]census
}

// census is the state of an owner's plan.
type census struct {
	kind   string
	states map[State]int
	oldest time.Time       // zero: nothing waits
	bad    map[string]bool // the nodes that have failed, and are not ready since then
}

// NewMonitor returns a Monitor that records events, shows metrics, or both: each may be nil.
func NewMonitor(events *event.Recorder, shown *metrics.Metrics) *Monitor {
	m := &Monitor{events: events, owners: make(map[types.UID]census)}
	if shown == nil {
		return m
	}
	m.nodes = shown.Gauge("pintle_plan_nodes", "Nodes of plans by state.", "kind", "state")
	m.oldest = shown.Gauge("pintle_plan_oldest_wait_seconds", "How long the node has waited that waits longest.", "kind")
	m.took = shown.Histogram("pintle_plan_ready_seconds", "How long an owner was not ready.",
		[]float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600}, "kind")
	shown.Collect(m.collect)
	return m
}

// Forget drops the metrics of an owner that is gone. It is for the Gone of a controller
// without a Cleanup: [Plan.Delete] forgets an owner itself.
func (m *Monitor) Forget(owner metav1.Object) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.owners, owner.GetUID())
}

func (m *Monitor) collect(s *metrics.Scrape) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kinds := make(map[string]census)
	for _, c := range m.owners {
		sum, known := kinds[c.kind]
		if !known {
			sum.states = make(map[State]int)
		}
		for state, n := range c.states {
			sum.states[state] += n
		}
		if !c.oldest.IsZero() && (sum.oldest.IsZero() || c.oldest.Before(sum.oldest)) {
			sum.oldest = c.oldest
		}
		kinds[c.kind] = sum
	}
	for kind, sum := range kinds {
		for _, state := range states {
			s.Gauge(m.nodes, float64(sum.states[state]), kind, string(state))
		}
		wait := 0.0
		if !sum.oldest.IsZero() {
			wait = max(0, time.Since(sum.oldest).Seconds())
		}
		s.Gauge(m.oldest, wait, kind)
	}
}

// glimpse is a status before a run. Without a Monitor it is empty.
type glimpse struct {
	states map[string]State
	ready  *metav1.Condition
}

func (m *Monitor) glimpse(s *Status) glimpse {
	if m == nil {
		return glimpse{}
	}
	g := glimpse{states: make(map[string]State, len(s.Nodes))}
	for _, n := range s.Nodes {
		g.states[n.Name] = n.State
	}
	if c := meta.FindStatusCondition(s.Conditions, "Ready"); c != nil {
		ready := *c
		g.ready = &ready
	}
	return g
}

// lost tells that a thing was there and is created again.
func (m *Monitor) lost(of metav1.Object, s NodeStatus) {
	if owner, ok := of.(event.Object); ok && m != nil && m.events != nil {
		m.events.Warning(owner, "ThingLost", "%s: %s %s was there and is gone: another one is created", s.Name, s.Kind, s.ObjectName)
	}
}

// saw takes a status that was stored.
func (m *Monitor) saw(p *Plan, was glimpse) {
	if m == nil {
		return
	}
	c := census{kind: p.kind.GroupKind().String(), states: make(map[State]int), bad: make(map[string]bool)}
	m.mu.Lock()
	before := m.owners[p.owner.GetUID()].bad
	m.mu.Unlock()
	for _, n := range p.status.Nodes {
		c.states[n.State]++
		if n.State == Failed || n.State == Degraded || before[n.Name] && n.State != Ready {
			c.bad[n.Name] = true
		}
		if n.State != Ready && n.State != Absent && (c.oldest.IsZero() || n.Since.Time.Before(c.oldest)) {
			c.oldest = n.Since.Time
		}
	}
	m.mu.Lock()
	m.owners[p.owner.GetUID()] = c
	m.mu.Unlock()
	is := meta.FindStatusCondition(p.status.Conditions, "Ready")
	wasReady := was.ready != nil && was.ready.Status == metav1.ConditionTrue
	isReady := is.Status == metav1.ConditionTrue
	if m.took != nil && isReady && !wasReady {
		since := p.owner.GetCreationTimestamp().Time
		if was.ready != nil {
			since = was.ready.LastTransitionTime.Time
		}
		m.took.With(c.kind).Observe(max(0, time.Since(since).Seconds()))
	}
	owner, ok := p.owner.(event.Object)
	if m.events == nil || !ok {
		return
	}
	for _, n := range p.status.Nodes {
		bad := before[n.Name] || was.states[n.Name] == Failed || was.states[n.Name] == Degraded
		switch {
		case n.State == was.states[n.Name]:
		case n.State == Failed:
			m.events.Warning(owner, "NodeFailed", "%s: %s", n.Name, n.Message)
		case n.State == Degraded:
			m.events.Warning(owner, "NodeDegraded", "%s: %s", n.Name, n.Message)
		case n.State == Ready && bad:
			m.events.Normal(owner, "NodeRecovered", "%s is ready again", n.Name)
		}
	}
	switch {
	case isReady && !wasReady:
		m.events.Normal(owner, "Ready", "%s", is.Message)
	case !isReady && wasReady:
		m.events.Warning(owner, "NotReady", "%s", is.Message)
	}
}
