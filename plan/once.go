package plan

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
)

// Once adds a node for a Secret whose values are made once, such as a password or a key.
// build makes new values each time. A value that the Secret in the cluster has stays, so
// the new one is used only if there is none.
//
// The Secret is immutable unless build says otherwise: so a process whose store is behind
// the server cannot put another value in the place of the first one. A value that build
// adds in a later release is refused then, see [Node.OnImmutable]. Use [Node.Retain] if the
// values must outlive the owner.
func Once(p *Plan, name string, secrets kube.Resource[corev1.Secret], build func(Inputs) (*corev1.Secret, error)) *Node[corev1.Secret] {
	n := newObject(p, name, secrets)
	n.writes, n.make = secrets, build
	n.typed = onceNode{n}
	return n.Node
}

// onceNode is an objectNode that keeps values.
type onceNode struct {
	*objectNode[corev1.Secret]
}

func (n onceNode) build(ctx context.Context, in Inputs) (*claim, error) {
	c, err := n.objectNode.build(ctx, in)
	if err != nil {
		return nil, err
	}
	want := n.wanted
	values := make(map[string][]byte, len(want.Data)+len(want.StringData))
	for key, value := range want.Data {
		values[key] = value
	}
	for key, value := range want.StringData {
		values[key] = []byte(value)
	}
	want.Data, want.StringData = values, nil
	if want.Immutable == nil {
		yes := true
		want.Immutable = &yes
	}
	is, err := n.read(ctx, c.key)
	switch {
	case apierrors.IsNotFound(err):
		return c, nil
	case err != nil:
		return nil, err
	}
	for key, value := range is.Data {
		if _, wanted := values[key]; wanted {
			values[key] = value
		}
	}
	return c, nil
}
