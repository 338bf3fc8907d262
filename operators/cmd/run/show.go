package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/operators"
	"github.com/pintle-go/pintle/operators/internal/install"
	"github.com/pintle-go/pintle/operators/internal/local"
	"github.com/pintle-go/pintle/plan"
)

// show applies the samples and waits until the operators have acted on them.
func (s settings) show(ctx context.Context, c *local.Cluster, ops running) error {
	if _, err := ops["foo"].Await(ctx, "msg=serving"); err != nil {
		return err
	}
	for _, op := range list() {
		if op.definition != "" || op.sample == "" || ops[op.name] == nil {
			continue
		}
		if _, err := ops[op.name].Await(ctx, "controller runs"); err != nil {
			return err // its definition is installed by now
		}
	}
	if err := s.samples(ctx, c); err != nil {
		return err
	}
	for _, op := range list() {
		for _, step := range op.steps {
			if err := step.do(s, ctx, c, ops); errors.Is(err, errNotHere) {
				continue
			} else if err != nil {
				return fmt.Errorf("demonstrate that %s: %w", step.what, err)
			}
			s.Out.Say("seen: %s", step.what)
		}
	}
	return nil
}

// samples applies the samples, unless objects that are not ours have their names.
func (s settings) samples(ctx context.Context, c *local.Cluster) error {
	var files []string
	for _, op := range list() {
		if op.sample != "" {
			files = append(files, op.sample)
		}
	}
	samples, err := install.Read(operators.Files, files...)
	if err != nil {
		return err
	}
	for _, m := range samples {
		o, err := install.Get(ctx, c.Client, c.Namespace, m)
		switch {
		case errors.Is(err, kube.ErrNotServed): // its kind is not served yet
		case err != nil:
			return err
		case o != nil && !ours(o):
			return fmt.Errorf(
				"there is a %s in namespace %s that this command did not create: delete it, or set another namespace in the kubeconfig's context",
				m, c.Namespace,
			)
		}
	}
	if !c.Local {
		s.Undo.Add("delete samples", func(ctx context.Context) error {
			err := install.Delete(ctx, c.Client, c.Namespace, samples...)
			if err == nil {
				s.Out.Say("deleted the samples; the definitions stay; to delete them: kubectl delete crd %s", crds())
			}
			return err
		})
	}
	if c.Local {
		storage, err := install.Read(operators.Files, "shop/storage.yaml")
		if err != nil {
			return err
		}
		samples = append(storage, samples...)
	}
	if err := install.Apply(ctx, c.Client, c.Namespace, samples...); err != nil {
		return fmt.Errorf("apply samples: %w", err)
	}
	s.Out.Say("applied samples")
	return nil
}

// ours reports whether an object was left by an earlier run of this command, which was
// killed.
func ours(o *kube.Object) bool {
	for _, f := range o.ManagedFields {
		if f.Manager == fieldManager {
			return true
		}
	}
	return false
}

// errNotHere is the error of a step that is impossible on this cluster.
var errNotHere = errors.New("not on this cluster")

func showAdded(ctx context.Context, _ *local.Cluster, ops running) error {
	_, err := ops["book"].Await(ctx, "ADDED moby-dick Moby-Dick; or, The Whale")
	return err
}

func showModified(ctx context.Context, c *local.Cluster, ops running) error {
	if _, err := books(c).Patch(ctx, "beowulf", types.MergePatchType, []byte(`{"spec":{"title":"Bēowulf"}}`)); err != nil {
		return err
	}
	_, err := ops["book"].Await(ctx, "MODIFIED beowulf Bēowulf")
	return err
}

func showDeleted(ctx context.Context, c *local.Cluster, ops running) error {
	if err := books(c).Delete(ctx, "beowulf"); err != nil {
		return err
	}
	_, err := ops["book"].Await(ctx, "DELETED beowulf")
	return err
}

func books(c *local.Cluster) kube.View[kube.Object] {
	kind := kube.Kind{GVK: kube.GVK{Group: "example.technosophos.com", Version: "v1", Kind: "Book"}}
	return kube.ViewOf[kube.Object](c.Client, kind).In(c.Namespace)
}

func showServed(ctx context.Context, _ *local.Cluster, ops running) error {
	url := "http://" + addressOf(ops["foo"])
	if err := fetched(ctx, url+"/readyz", func(body []byte) bool { return string(body) == "ok\n" }); err != nil {
		return err
	}
	return fetched(ctx, url+"/foos/good", func(body []byte) bool {
		var foo struct {
			Name string `json:"name"`
			Spec struct {
				Info string `json:"info"`
			} `json:"spec"`
		}
		return json.Unmarshal(body, &foo) == nil && foo.Name == "good" && foo.Spec.Info == "a helpful foo"
	})
}

func showMetrics(ctx context.Context, _ *local.Cluster, ops running) error {
	return fetched(ctx, "http://"+addressOf(ops["foo"])+"/metrics", func(body []byte) bool {
		text := string(body)
		return strings.Contains(text, "\n"+`pintle_store_synced{store="foos"} 1`) &&
			strings.Contains(text, "\n"+`rest_client_requests_total{code="200",`)
	})
}

// showPage gets the data of the page without a token.
func showPage(ctx context.Context, _ *local.Cluster, ops running) error {
	if _, err := ops["shop"].Await(ctx, "serving address="); err != nil {
		return err
	}
	return fetched(ctx, "http://"+addressOf(ops["shop"])+"/plans/data", func(body []byte) bool {
		return strings.Contains(string(body), "corner")
	})
}

// fetched waits until a URL answers with success and a correct body.
func fetched(ctx context.Context, url string, right func([]byte) bool) error {
	for {
		code, body, err := fetch(ctx, url)
		if err == nil && code == http.StatusOK && right(body) {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("the last answer was: %d %s", code, body)
			}
			return fmt.Errorf("get %s: %w: %w", url, context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func fetch(ctx context.Context, url string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

func showPod(ctx context.Context, c *local.Cluster, _ running) error {
	if !c.Local {
		return errNotHere // real nodes would have to fetch an image
	}
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sample", Image: "sample.invalid/simulated"}}},
	}
	pod.Name = "sample"
	pods := kube.For[corev1.Pod](c.Client).In(c.Namespace)
	if _, err := pods.Create(ctx, pod); err != nil {
		return err
	}
	_, err := pods.Until(ctx, pod.Name, func(p *corev1.Pod) bool {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodReady {
				return p.Status.Phase == corev1.PodRunning && cond.Status == corev1.ConditionTrue
			}
		}
		return false
	})
	return err
}

// echo has the fields of an Echo that the demonstration reads.
type echo struct {
	kube.Object
	Spec struct {
		Replicas int32 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ReadyReplicas int32 `json:"readyReplicas"`
	} `json:"status"`
}

// GVK returns the kind.
func (echo) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Echo"} }

func showEcho(ctx context.Context, c *local.Cluster, _ running) error {
	if !c.Local {
		return errNotHere // real nodes would have to fetch an image
	}
	_, err := kube.ViewOf[echo](c.Client).In(c.Namespace).Until(ctx, "hello", func(e *echo) bool {
		return e.Status.ReadyReplicas == e.Spec.Replicas
	})
	return err
}

func showBack(ctx context.Context, c *local.Cluster, _ running) error {
	deployments := kube.For[appsv1.Deployment](c.Client).In(c.Namespace)
	if _, err := deployments.Until(ctx, "hello", func(*appsv1.Deployment) bool { return true }); err != nil {
		return err
	}
	changed, err := deployments.Patch(ctx, "hello", types.MergePatchType, []byte(`{"spec":{"replicas":7}}`))
	if err != nil {
		return err
	}
	_, err = deployments.Until(ctx, "hello", func(d *appsv1.Deployment) bool {
		return d.Generation > changed.Generation && *d.Spec.Replicas != 7
	})
	return err
}

// letter has the fields of a Letter that the demonstration reads.
type letter struct {
	kube.Object
	Status struct {
		Text string `json:"text"`
	} `json:"status"`
}

// GVK returns the kind.
func (letter) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Letter"} }

func showLetters(ctx context.Context, c *local.Cluster, _ running) error {
	letters := kube.ViewOf[letter](c.Client).In(c.Namespace)
	say := func(ishmael, queequeg string) error {
		for name, text := range map[string]string{"ishmael": ishmael, "queequeg": queequeg} {
			if _, err := letters.Until(ctx, name, func(l *letter) bool { return l.Status.Text == text }); err != nil {
				return err
			}
		}
		return nil
	}
	if err := say("Dear Ishmael, come and see my harpoon.", "Dear Queequeg, come and see my harpoon."); err != nil {
		return err
	}
	templates := kube.For[corev1.ConfigMap](c.Client).In(c.Namespace)
	another := []byte(`{"data":{"text":"NAME, where are you?"}}`)
	if _, err := templates.Patch(ctx, "invitation", types.MergePatchType, another); err != nil {
		return err
	}
	return say("Ishmael, where are you?", "Queequeg, where are you?")
}

// shop has the fields of a Shop that the demonstration reads.
type shop struct {
	kube.Object
	Status plan.Status `json:"status"`
}

// GVK returns the kind.
func (shop) GVK() kube.GVK { return kube.GVK{Group: "shop.example.com", Version: "v1", Kind: "Shop"} }

// showShop shows the tree of a Shop that is ready.
func (s settings) showShop(ctx context.Context, c *local.Cluster, _ running) error {
	if !c.Local {
		return errNotHere // real nodes would have to fetch an image
	}
	return s.tree(ctx, c, func(s *shop) bool { return meta.IsStatusConditionTrue(s.Status.Conditions, "Ready") })
}

// showWaiting takes the greeting away from the settings, shows the tree, and puts the
// greeting back.
func (s settings) showWaiting(ctx context.Context, c *local.Cluster, _ running) error {
	if !c.Local {
		return errNotHere
	}
	settings := kube.For[corev1.ConfigMap](c.Client).In(c.Namespace)
	greet := func(data string) error {
		_, err := settings.Patch(ctx, "corner-settings", types.MergePatchType, []byte(`{"data":`+data+`}`))
		return err
	}
	if err := greet(`{"greeting":null}`); err != nil {
		return err
	}
	err := s.tree(ctx, c, func(s *shop) bool {
		for _, n := range s.Status.Nodes {
			if n.Name == "app" {
				return n.State == plan.Blocked
			}
		}
		return false
	})
	return errors.Join(err, greet(`{"greeting":"Welcome!"}`))
}

// tree waits until a condition of the sample holds, and prints its plan.
func (s settings) tree(ctx context.Context, c *local.Cluster, holds func(*shop) bool) error {
	is, err := kube.ViewOf[shop](c.Client).In(c.Namespace).Until(ctx, "corner", holds)
	if err != nil {
		return err
	}
	s.Out.Say("the plan of the Shop corner:")
	for _, line := range (plan.Tree{}).Lines(&is.Status, time.Now()) {
		s.Out.Say("  %s", line)
	}
	return nil
}

// llama has the fields of a Llama that the demonstration reads.
type llama struct {
	kube.Object
	Status struct {
		Mood string `json:"mood"`
	} `json:"status"`
}

// GVK returns the kind.
func (llama) GVK() kube.GVK {
	return kube.GVK{Group: "farm.example.com", Version: "v1alpha1", Kind: "Llama"}
}

// showFarm creates the llamas when the program serves them, and shows them as kubectl does.
func (s settings) showFarm(ctx context.Context, c *local.Cluster, ops running) error {
	if ops["farm"] == nil {
		return errNotHere // the operators' start has said so
	}
	if _, err := ops["farm"].Await(ctx, "controller runs"); err != nil {
		return err
	}
	list, err := install.Read(operators.Files, "farm/sample.yaml")
	if err != nil {
		return err
	}
	if err := install.Apply(ctx, c.Client, c.Namespace, list...); err != nil {
		return err
	}
	llamas := kube.ViewOf[llama](c.Client).In(c.Namespace)
	for name, mood := range map[string]string{"dora": "content", "emil": "hungry"} {
		if _, err := llamas.Until(ctx, name, func(l *llama) bool { return l.Status.Mood == mood }); err != nil {
			return err
		}
	}
	words := strings.Fields(c.Kubectl)
	get := exec.CommandContext(ctx, words[0], append(words[1:], "get", "llamas,farmpods")...)
	out, err := get.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		s.Out.Lines("kubectl")(strings.TrimRight(line, "\n"))
	}
	return err
}
