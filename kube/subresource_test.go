package kube_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/kube"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestScale(t *testing.T) {
	s := start(t)
	deployments := kube.For[appsv1.Deployment](s.Client).In(s.namespace)
	books := kube.For[book](s.Client, installBooks(t, s, kube.Namespaced)).In(s.namespace)
	got(deployments.Create(soon(t), deployment("x")))(t)
	b := newBook("x", "Dune")
	b.Spec.Replicas = 1
	got(books.Create(soon(t), b))(t)
	for name, scales := range map[string]kube.Subresource[autoscalingv1.Scale]{
		"deployment": kube.Sub[autoscalingv1.Scale](deployments, "scale"),
		"book":       kube.Sub[autoscalingv1.Scale](books, "scale"),
	} {
		t.Run(name, func(t *testing.T) {
			scale := got(scales.Get(soon(t), "x"))(t)
			scale.Spec.Replicas = 3
			scale = got(scales.Update(soon(t), "x", scale))(t)
			if scale.Spec.Replicas != 3 {
				t.Errorf("updated to %+v", scale.Spec)
			}
			stale := scale.DeepCopy()
			scale = got(scales.Patch(soon(t), "x", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`)))(t)
			if scale.Spec.Replicas != 5 {
				t.Errorf("patched to %+v", scale.Spec)
			}
			if _, err := scales.Update(soon(t), "x", stale); !apierrors.IsConflict(err) {
				t.Errorf("stale update: %v", err)
			}
			_, err := scales.Get(soon(t), "none")
			if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "/scale "+s.namespace+"/none: ") {
				t.Errorf("got error %v", err)
			}
		})
	}
	if d := got(deployments.Get(soon(t), "x"))(t); *d.Spec.Replicas != 5 {
		t.Errorf("the deployment has %d replicas", *d.Spec.Replicas)
	}
	dry := kube.Sub[autoscalingv1.Scale](deployments.With(kube.WriteOptions{DryRun: true}), "scale")
	got(dry.Patch(soon(t), "x", types.MergePatchType, []byte(`{"spec":{"replicas":9}}`)))(t)
	if d := got(deployments.Get(soon(t), "x"))(t); *d.Spec.Replicas != 5 {
		t.Errorf("a dry run made %d replicas", *d.Spec.Replicas)
	}
}

func TestTokenRequest(t *testing.T) {
	s := start(t)
	accounts := kube.For[corev1.ServiceAccount](s.Client).In(s.namespace)
	got(accounts.Create(soon(t), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}))(t)
	hour := int64(3600)
	token := got(kube.Sub[authenticationv1.TokenRequest](accounts, "token").Create(soon(t), "robot",
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour},
		}))(t)
	if token.Status.Token == "" || token.Status.ExpirationTimestamp.IsZero() {
		t.Fatalf("answered %+v", token.Status)
	}
	// The token belongs to somebody.
	config := s.Config().Rest
	config.BearerToken, config.BearerTokenFile = token.Status.Token, ""
	config.CertData, config.KeyData, config.CertFile, config.KeyFile = nil, nil, "", ""
	robot := s.connect(t, config)
	review := got(kube.For[authenticationv1.SelfSubjectReview](robot).Create(soon(t),
		&authenticationv1.SelfSubjectReview{}))(t)
	if want := "system:serviceaccount:" + s.namespace + ":robot"; review.Status.UserInfo.Username != want {
		t.Errorf("the token is %q's, want %q", review.Status.UserInfo.Username, want)
	}
}

// TestOtherSubresources uses some subresources by name alone.
func TestOtherSubresources(t *testing.T) {
	s := start(t)
	pods := kube.For[corev1.Pod](s.Client).In(s.namespace)
	got(pods.Create(soon(t), simplePod("p")))(t)

	p := got(kube.Sub[corev1.Pod](pods, "ephemeralcontainers").Patch(soon(t), "p", types.StrategicMergePatchType,
		[]byte(`{"spec":{"ephemeralContainers":[{"name":"debug","image":"d"}]}}`)))(t)
	if len(p.Spec.EphemeralContainers) != 1 {
		t.Errorf("patched to %+v", p.Spec.EphemeralContainers)
	}
	got(kube.Sub[corev1.Binding](pods, "binding").Create(soon(t), "p", &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
	}))(t)
	if p := got(pods.Get(soon(t), "p"))(t); p.Spec.NodeName != "n" {
		t.Errorf("bound to %q", p.Spec.NodeName)
	}
	status := got(kube.Sub[corev1.Pod](pods, "status").Get(soon(t), "p"))(t)
	if status.Status.Phase != corev1.PodPending {
		t.Errorf("status is %+v", status.Status)
	}
	for name, want := range map[string]string{
		"nonsense": `kind is not served: the server has no pods/nonsense in v1`,
		"":         `"" cannot be a subresource`,
		"..":       `".." cannot be a subresource`,
		"a/../b":   `"a/../b" cannot be a subresource`,
	} {
		_, err := kube.Sub[corev1.Pod](pods, name).Get(soon(t), "p")
		if want = "get Pod/" + name + " " + s.namespace + "/p: " + want; name == "" {
			want = strings.Replace(want, "Pod/ ", "Pod ", 1)
		}
		if err == nil || err.Error() != want {
			t.Errorf("subresource %q: got error\n%v\nwant\n%s", name, err, want)
		}
	}
	if _, err := kube.Sub[corev1.Pod](pods, "nonsense").Get(soon(t), "p"); !errors.Is(err, kube.ErrNotServed) {
		t.Errorf("got error %v", err)
	}
}

// TestStatusNotServed applies a status of a kind that has no status subresource.
func TestStatusNotServed(t *testing.T) {
	s := start(t)
	maps := kube.For[corev1.ConfigMap](s.Client).In(s.namespace)
	got(maps.Create(soon(t), configMap("m")))(t)
	err := maps.Status().Update(soon(t), got(maps.Get(soon(t), "m"))(t))
	if !errors.Is(err, kube.ErrNotServed) || !strings.Contains(err.Error(), "no configmaps/status in v1") {
		t.Errorf("got error %v", err)
	}
}
