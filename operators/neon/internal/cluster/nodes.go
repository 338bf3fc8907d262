package cluster

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/ready"
)

// keeperNodes are the nodes of safekeepers that the cluster's status shows.
type keeperNodes struct {
	registered  *plan.Nodes[registration]
	evacuations *plan.Nodes[evacuation]
	turn        *plan.Node[turn]
	sets        *plan.Nodes[appsv1.StatefulSet]
	state       *turn // the turns at the begin of the run; nil if that is unknown
}

// safekeepers describes the safekeepers: those that stay, and those that leave until no timeline
// is on them.
func (op *Operator) safekeepers(
	ctx context.Context, p *plan.Plan, c *api.NeonCluster, on basis,
) keeperNodes {
	stay := safekeeperIDs(c)
	ids, numbers := keysOf(append(stay, kept(c, c.Status.Safekeepers, safekeeperName, on.unsettled)...))
	keys, running := on.keys, on.running
	state, failed := op.turnOf(ctx, c, on)
	tokens := plan.Object(p, "safekeeper-tokens", op.Secrets, func(in plan.Inputs) (*corev1.Secret, error) {
		key, err := ParseKeys(keys.From(in))
		if err != nil {
			return nil, err
		}
		return &corev1.Secret{ObjectMeta: about(c, "safekeeper"), Data: safekeeperTokens(key)}, nil
	}).Needs(keys)
	services := plan.Each(p, "safekeeper-service", ids, op.Services,
		func(_ plan.Inputs, key string) (*corev1.Service, error) {
			return safekeeper(c, numbers[key]).service(true), nil
		})
	certificates := op.certificates(ctx, p, c, on.security, on.authority, "safekeeper", ids, numbers)
	sets := plan.Each(p, "safekeeper", ids, op.StatefulSets,
		func(_ plan.Inputs, key string) (*appsv1.StatefulSet, error) {
			want, err := safekeeperSet(ctx, c, numbers[key], on)
			if err != nil || failed != nil {
				return nil, errors.Join(err, failed)
			}
			is, err := op.StatefulSets.In(want.Namespace).Cached().Get(ctx, want.Name)
			switch {
			case apierrors.IsNotFound(err) || err == nil && state.mayChange(numbers[key]):
				return on.settled(c, want), on.logins.exist(ctx, storeLogin(c))
			case err != nil:
				return nil, err
			}
			return on.settled(c, held(want, is)), nil
		}).Do(func(key string, n *plan.Node[appsv1.StatefulSet]) {
		on.settling(safekeeperName(c.Name, numbers[key]), n)
		n.Needs(existing(tokens, services.Key(key), on.broker, on.bucket)...).Within(5 * time.Minute)
		if certificates != nil {
			n.Needs(certificates.Key(key))
		}
	})
	all := keeperNodes{state: state, sets: sets}
	all.registered = plan.EachStep(p, "safekeeper-registration", ids[:len(stay)], op.safekeeperThings,
		func(in plan.Inputs, key string) (*registration, error) {
			return registered(c, numbers[key], sets.Key(key).From(in)), nil
		},
	).Do(func(key string, n *plan.Node[registration]) {
		leaves := state != nil && slices.Contains(state.leaving, numbers[key])
		judge := func(r *registration) ready.State { return registrationReady(r, leaves) }
		n.Needs(sets.Key(key), running).ReadyWhen(judge).Within(2 * time.Minute)
	})
	if state == nil {
		return all
	}
	leaving, _ := keysOf(state.leaving)
	all.evacuations = plan.EachStep(p, "safekeeper-evacuation", leaving, op.evacuationThings,
		func(_ plan.Inputs, key string) (*evacuation, error) {
			return &evacuation{cluster: kube.KeyOf(c), id: numbers[key], leaving: state.leaving}, nil
		}).Do(func(_ string, n *plan.Node[evacuation]) { n.Needs(running).ReadyWhen(evacuationReady) })
	// A safekeeper that has its turn is changed only while the store can be used. So it gets its turn only then:
	// otherwise another one may fall behind in between.
	all.turn = plan.Step(p, "safekeeper-turn", op.turnThings, func(plan.Inputs) (*turn, error) {
		return state, on.logins.exist(ctx, storeLogin(c))
	}).Needs(existing(running, on.bucket)...).ReadyWhen(turnReady).When(func(plan.Inputs) bool { return state.busy() })
	return all
}

// serverNodes are the nodes of pageservers that the cluster's status shows.
type serverNodes struct {
	registered *plan.Nodes[node]
	roll       *plan.Node[roll]
	sets       *plan.Nodes[appsv1.StatefulSet]
	state      *roll // the restarts at the begin of the run; nil if that is unknown
}

// pageservers describes the pageservers that stay. The nodes of the others leave the plan, so
// that it removes the pageservers.
func (op *Operator) pageservers(
	ctx context.Context, p *plan.Plan, c *api.NeonCluster, on basis,
) serverNodes {
	stay := pageserverIDs(c)
	ids, numbers := keysOf(append(stay, kept(c, c.Status.Pageservers, pageserverName, on.unsettled)...))
	keys, running := on.keys, on.running
	files := plan.Each(p, "pageserver-configuration", ids, op.Secrets,
		func(in plan.Inputs, key string) (*corev1.Secret, error) {
			private, err := ParseKeys(keys.From(in))
			if err != nil {
				return nil, err
			}
			data, err := pageserverFiles(c, numbers[key], private)
			return &corev1.Secret{ObjectMeta: aboutMember(c, "pageserver", numbers[key]), Data: data}, err
		}).Needs(keys)
	services := plan.Each(p, "pageserver-service", ids, op.Services,
		func(_ plan.Inputs, key string) (*corev1.Service, error) {
			// A pageserver is not ready before the storage controller has found its address.
			return pageserver(c, numbers[key], nil).service(true), nil
		})
	certificates := op.certificates(ctx, p, c, on.security, on.authority, "pageserver", ids, numbers)
	sets := plan.Each(p, "pageserver", ids, op.StatefulSets,
		func(in plan.Inputs, key string) (*appsv1.StatefulSet, error) {
			part := pageserver(c, numbers[key], files.Key(key).From(in).Data)
			credentials, err := on.logins.ofMember(ctx, part.about.Name)
			if err != nil {
				return nil, err
			}
			part.authority, part.credentials = on.memberAuthority(c), credentials
			// The operator deletes the pods when the others have their data.
			return on.settled(c, part.statefulSet(c.Spec.Pageservers.Volume, appsv1.OnDeleteStatefulSetStrategyType)), nil
		}).Do(func(key string, n *plan.Node[appsv1.StatefulSet]) {
		on.settling(pageserverName(c.Name, numbers[key]), n)
		n.Needs(existing(files.Key(key), services.Key(key), on.broker, running, on.bucket)...).Within(10 * time.Minute)
		if certificates != nil {
			n.Needs(certificates.Key(key))
		}
	})
	all := serverNodes{sets: sets}
	all.registered = plan.EachStep(p, "pageserver-registration", ids[:len(stay)], op.nodeThings,
		func(_ plan.Inputs, key string) (*node, error) {
			return &node{cluster: kube.KeyOf(c), id: numbers[key], T: upstream.Node{ID: numbers[key]}}, nil
		}).Do(func(key string, n *plan.Node[node]) {
		n.Needs(sets.Key(key)).ReadyWhen(nodeReady).Within(5 * time.Minute).UntilGone()
	})
	state, err := op.rollOf(ctx, c)
	if err != nil {
		return all // the store says so at the other nodes
	}
	all.state = state
	// A pod that takes the place of another one reads what the Secret of the store has then.
	all.roll = plan.Step(p, "pageserver-roll", op.rollThings, func(plan.Inputs) (*roll, error) {
		return state, on.logins.exist(ctx, storeLogin(c))
	}).Needs(existing(running, on.bucket)...).ReadyWhen(rollReady).When(func(plan.Inputs) bool { return state.busy() })
	return all
}

// report shows the members in the cluster's status.
func report(c *api.NeonCluster, keepers keeperNodes, servers serverNodes, refused string) {
	s := &c.Status
	s.ObservedGeneration = c.Generation
	for i := range s.Safekeepers {
		m := &s.Safekeepers[i]
		key := strconv.FormatInt(m.ID, 10)
		if n := keepers.registered.Key(key); n != nil && n.Last() != nil {
			is := n.Last()
			m.State, m.Zone = string(is.T.Policy), is.T.Zone
			if is.volume.emptied {
				leave(m, metav1.Now(), isEmptied)
			}
		}
		if keepers.evacuations == nil {
			continue
		}
		if n := keepers.evacuations.Key(key); n != nil && n.Last() != nil && n.Last().done {
			m.Evacuated = true
		}
	}
	for i := range s.Pageservers {
		m := &s.Pageservers[i]
		if n := servers.registered.Key(strconv.FormatInt(m.ID, 10)); n != nil && n.Last() != nil {
			m.State = string(n.Last().T.Availability)
			if zone := n.Last().T.Zone; zone != "" {
				m.Zone = zone
			}
		}
	}
	if state := keepers.state; state != nil && !state.busy() {
		s.SafekeeperTurn = 0
	} else if state != nil && keepers.turn.Last() != nil {
		s.SafekeeperTurn = keepers.turn.Last().now
	} else if state != nil && slices.Contains(state.outdated, s.SafekeeperTurn) {
		s.SafekeeperTurn = 0 // it cannot be changed, and another one may fall behind meanwhile
	}
	if state := servers.state; state != nil && !state.busy() {
		s.PageserverRoll = nil
	} else if state != nil && servers.roll.Last() != nil {
		s.PageserverRoll = servers.roll.Last().now
	}
	reportEvacuation(c, keepers.evacuations, refused)
}

// evacuating is the condition that tells about safekeepers that leave.
const evacuating = "Evacuating"

// reportEvacuation says which safekeepers leave, why, and how far that has come.
func reportEvacuation(c *api.NeonCluster, evacuations *plan.Nodes[evacuation], refused string) {
	conditions := &c.Status.Conditions
	var texts []string
	reason := ""
	for _, m := range c.Status.Safekeepers {
		if stays(m) {
			continue
		}
		reason = m.Reason
		text := "safekeeper " + strconv.FormatInt(m.ID, 10) + " leaves"
		if m.Evacuated {
			text = "safekeeper " + strconv.FormatInt(m.ID, 10) + " has no timelines and is removed"
		} else if evacuations != nil {
			if n := evacuations.Key(strconv.FormatInt(m.ID, 10)); n != nil && n.Last() != nil {
				text = n.Last().String()
			}
		}
		texts = append(texts, m.Reason+": "+text)
	}
	status := metav1.ConditionFalse
	if len(texts) > 0 {
		status = metav1.ConditionTrue
	}
	if refused != "" {
		reason, texts = "Refused", append(texts, refused)
	}
	if len(texts) == 0 {
		meta.RemoveStatusCondition(conditions, evacuating)
		return
	}
	controller.SetCondition(c, conditions, metav1.Condition{
		Type: evacuating, Status: status, Reason: reason, Message: strings.Join(texts, "; "),
	})
}
