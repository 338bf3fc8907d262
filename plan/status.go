package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/controller"
)

// Status is the part of an owner's status that a plan keeps. A program may have it as the
// whole status of its kind, or embed it with the tag `json:",inline"`.
type Status struct {
	// Conditions are Ready, Progressing and Degraded. Others may be added.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ReadyNodes counts the nodes that are ready, as in 3/5. Absent nodes do not count.
	ReadyNodes string `json:"readyNodes,omitempty" crd:"column=Ready"`
	// Summary is Ready, or says what the plan waits for first.
	Summary string `json:"summary,omitempty" crd:"column=Status"`
	// Since is the time since when the summary holds, not counting its details.
	Since metav1.Time `json:"since,omitzero" crd:"column=Since,columnType=date"`
	// Nodes of the plan, and objects of nodes that have left it and are not deleted yet.
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// Witness is the uid of a Secret of a plan with Marks: see Plan.Marks.
	Witness types.UID `json:"witness,omitempty"`
}

// NodeStatus tells about a node, and identifies its object or thing.
type NodeStatus struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Why the node is in this state.
	Message string `json:"message,omitempty"`
	// When the node entered this state. A degraded node was not ready since then, and neither
	// was one that has failed since.
	Since metav1.Time `json:"since,omitzero"`

	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	ObjectName string `json:"objectName,omitempty"`
	// UID of the object. It is empty while the object may be about to be created.
	UID types.UID `json:"uid,omitempty"`
	// Thing is set for a thing outside the cluster. Kind and ObjectName are those of the
	// thing, and APIVersion, Namespace and UID are empty.
	Thing *ThingStatus `json:"thing,omitempty"`
	// Needs are the nodes that the node needed when its object was last applied. Of a node
	// without an object, they are the nodes that it needs.
	Needs []string `json:"needs,omitempty"`
	// Orphans are the labels of the pods of a StatefulSet that is being replaced. Until it has
	// taken its pods over, they may belong to nobody.
	Orphans map[string]string `json:"orphans,omitempty"`
	// Done identifies what a Job was to do that is complete. It is not run again when it is gone.
	Done string `json:"done,omitempty"`
	// Undo is how the object leaves: see Node.Retain, Node.UntilGone and Plan.Orphans.
	Undo string `json:"undo,omitempty"`
}

// State is the state of a node.
type State string

const (
	// Ready means that others can rely on the node.
	Ready State = "Ready"
	// Waiting means that the object exists, or is awaited, and is not ready.
	Waiting State = "Waiting"
	// Blocked means that a node which this one needs is not ready. An object that the
	// node made before is left as it is.
	Blocked State = "Blocked"
	// Degraded means that the node was not ready within its deadline.
	Degraded State = "Degraded"
	// Failed means that the node could not be built or applied, or that its object says so.
	Failed State = "Failed"
	// Absent means that the node's condition, or that of a node which it needs, does not
	// hold.
	Absent State = "Absent"
	// Deleting means that the object has left the plan.
	Deleting State = "Deleting"
)

// states are all states in the order in which people care.
var states = []State{Ready, Waiting, Blocked, Degraded, Failed, Absent, Deleting}

// How an object leaves.
const (
	undoRetain = "Retain"
	undoWait   = "UntilGone"
	undoOrphan = "Orphan" // it is left with all others
)

// object identifies an object whatever the version of its kind, or a thing.
type object struct {
	outside                      bool
	group, kind, namespace, name string
}

func (s *NodeStatus) object() object {
	gv, _ := schema.ParseGroupVersion(s.APIVersion) // it was printed by GroupVersion.String
	return object{s.Thing != nil, gv.Group, s.Kind, s.Namespace, s.ObjectName}
}

func (s *NodeStatus) gvk() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
}

// enter sets the state, and since when it holds.
func (s *NodeStatus) enter(state State, message string, now time.Time) {
	degrades := s.State == Waiting && state == Degraded || s.State == Degraded && (state == Waiting || state == Failed)
	if s.State != state && !degrades || s.Since.IsZero() {
		s.Since = metav1.NewTime(now.Truncate(time.Second))
	}
	s.State, s.Message = state, short(message)
}

// maxMessage keeps 200 nodes well inside an object.
const maxMessage = 1000

func short(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage] + " …"
	}
	return strings.ToValidUTF8(message, "")
}

// summarize sets the conditions.
func (s *Status) summarize(owner metav1.Object) {
	s.resume()
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: fmt.Sprintf("%d nodes are ready", s.count(Ready))}
	progressing := metav1.Condition{Type: "Progressing", Status: metav1.ConditionFalse, Reason: "Done"}
	degraded := metav1.Condition{Type: "Degraded", Status: metav1.ConditionFalse, Reason: "AsExpected"}
	if bad := s.tell(Failed, Degraded); bad != "" {
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, "Failed", bad
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Failed", bad
		progressing.Reason = "Failed"
	}
	waits := s.tell(Waiting)
	if waits == "" && ready.Status == metav1.ConditionTrue {
		waits = s.tell(Blocked)
	}
	if waits != "" {
		waits = "waiting for " + waits
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, "Waiting", waits
		if ready.Status == metav1.ConditionTrue {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Waiting", waits
		}
	} else if leaves := s.tell(Deleting); leaves != "" {
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, "Deleting", "deleting "+leaves
	}
	if owner.GetDeletionTimestamp() != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Deleting", progressing.Message
	}
	for _, c := range []metav1.Condition{ready, progressing, degraded} {
		controller.SetCondition(owner, &s.Conditions, c)
	}
	s.summary()
}

func (s *Status) count(state State) (nodes int) {
	for _, n := range s.Nodes {
		if n.State == state {
			nodes++
		}
	}
	return nodes
}

// maxSummary fits on the line of a terminal.
const maxSummary = 80

// summary sets the fields that kubectl get shows.
func (s *Status) summary() {
	first := s.first()
	s.ReadyNodes = fmt.Sprintf("%d/%d", s.count(Ready), len(s.Nodes)-s.count(Absent)-s.count(Deleting))
	if first == nil || first.State == Ready || first.State == Absent {
		s.Summary = string(Ready)
		if c := meta.FindStatusCondition(s.Conditions, "Ready"); c != nil {
			s.Since = c.LastTransitionTime
		}
		return
	}
	verb := map[State]string{Waiting: "waiting for ", Blocked: "waiting for ", Deleting: "deleting "}[first.State]
	s.Summary, s.Since = verb+first.Name, first.Since
	if first.Message != "" {
		s.Summary += ": " + first.Message
	}
	s.Summary = cut(s.Summary)
}

// cut shortens a summary.
func cut(summary string) string {
	if all := []rune(summary); len(all) > maxSummary {
		return string(all[:maxSummary-1]) + "…"
	}
	return summary
}

// urgency is the order in which the summary picks a node by its state.
var urgency = []State{Failed, Degraded, Waiting, Blocked, Deleting, Ready, Absent}

// first returns the first of the nodes about whose state people care most, nil if there
// are no nodes.
func (s *Status) first() (first *NodeStatus) {
	for i, n := range s.Nodes {
		if first == nil || slices.Index(urgency, n.State) < slices.Index(urgency, first.State) {
			first = &s.Nodes[i]
		}
	}
	return first
}

// State returns the state about which people care most: that of a node that has failed, if
// there is one. It is Ready if no node is wanted, and empty if there are no nodes.
func (s *Status) State() State {
	switch first := s.first(); {
	case first == nil:
		return ""
	case first.State == Absent:
		return Ready
	default:
		return first.State
	}
}

// told is how many nodes a condition names.
const told = 3

// tell names the nodes in some states, and says why they are in them.
func (s *Status) tell(states ...State) string {
	var texts []string
	more := 0
	for _, n := range s.Nodes {
		switch {
		case !slices.Contains(states, n.State):
		case len(texts) == told:
			more++
		case n.Message == "":
			texts = append(texts, n.Name)
		default:
			texts = append(texts, n.Name+": "+n.Message)
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}
