// Package install applies the objects of YAML files to a cluster, as kubectl apply
// --server-side does.
package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/pintle-go/pintle/kube"
)

// Manifest is an object in YAML.
type Manifest struct {
	GVK       kube.GVK
	Namespace string // empty: the kind is cluster-scoped, or the caller of Apply chooses
	Name      string
	YAML      []byte
}

// String names the object as kubectl does.
func (m Manifest) String() string {
	return fmt.Sprintf("%s %s", m.GVK.Kind, kube.Key{Namespace: m.Namespace, Name: m.Name})
}

// Read reads the objects in files.
func Read(files fs.FS, names ...string) ([]Manifest, error) {
	var list []Manifest
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		found, err := Parse(data)
		if err != nil {
			return nil, fmt.Errorf("read manifest %s: %w", name, err)
		}
		list = append(list, found...)
	}
	return list, nil
}

// Parse reads the objects in a stream of YAML documents.
func Parse(data []byte) ([]Manifest, error) {
	var list []Manifest
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		var o kube.Object
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return nil, err
		}
		gv, err := schema.ParseGroupVersion(o.APIVersion)
		if err != nil {
			return nil, err
		}
		if o.Kind == "" || o.Name == "" {
			return nil, errors.New("a document has no kind or has no name")
		}
		list = append(list, Manifest{GVK: gv.WithKind(o.Kind), Namespace: o.Namespace, Name: o.Name, YAML: doc})
	}
	return list, nil
}

// InNamespace returns the manifests with one namespace replaced by another, wherever it
// occurs.
func InNamespace(list []Manifest, from, to string) ([]Manifest, error) {
	list = slices.Clone(list)
	for i, m := range list {
		data := bytes.ReplaceAll(m.YAML, []byte("namespace: "+from+"\n"), []byte("namespace: "+to+"\n"))
		moved, err := Parse(data)
		if err != nil {
			return nil, err
		}
		list[i] = moved[0]
	}
	return list, nil
}

// handle returns a handle for an object of a manifest. Objects of namespaced kinds
// without a namespace are in the given one.
func handle(
	ctx context.Context, client *kube.Client, m Manifest, namespace string,
) (kube.View[kube.Object], *kube.Object, error) {
	kind := kube.Kind{GVK: m.GVK}
	objects := kube.ViewOf[kube.Object](client, kind)
	if m.Namespace != "" {
		namespace = m.Namespace
	}
	o, err := objects.Get(ctx, m.Name)
	if errors.Is(err, kube.ErrScope) {
		objects = objects.In(namespace)
		o, err = objects.Get(ctx, m.Name)
	}
	if apierrors.IsNotFound(err) {
		return objects, nil, nil
	}
	return objects, o, err
}

// Get returns the metadata of an object, or nil if it does not exist.
func Get(ctx context.Context, client *kube.Client, namespace string, m Manifest) (*kube.Object, error) {
	_, o, err := handle(ctx, client, m, namespace)
	return o, err
}

// Apply applies the manifests. Objects of namespaced kinds without a namespace get the
// given one. After a CustomResourceDefinition, Apply waits until its kind is served.
func Apply(ctx context.Context, client *kube.Client, namespace string, list ...Manifest) error {
	for _, m := range list {
		if err := apply(ctx, client, namespace, m); err != nil {
			return err
		}
	}
	return nil
}

func apply(ctx context.Context, client *kube.Client, namespace string, m Manifest) error {
	err := patch(ctx, client, namespace, m)
	if err == nil && m.GVK.Kind == "CustomResourceDefinition" {
		err = established(ctx, client, m)
	}
	return err
}

func patch(ctx context.Context, client *kube.Client, namespace string, m Manifest) error {
	objects, _, err := handle(ctx, client, m, namespace)
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, m.Name, types.ApplyYAMLPatchType, m.YAML)
	return err
}

// Delete deletes objects and returns when they are gone. An object that does not exist is
// no error.
func Delete(ctx context.Context, client *kube.Client, namespace string, list ...Manifest) error {
	for _, m := range list {
		objects, o, err := handle(ctx, client, m, namespace)
		if errors.Is(err, kube.ErrNotServed) || err == nil && o == nil {
			continue
		}
		if err != nil {
			return err
		}
		if err := objects.Delete(ctx, m.Name); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err := objects.UntilGone(ctx, m.Name); err != nil {
			return err
		}
	}
	return nil
}

// definition has the fields of a CustomResourceDefinition that tell whether its kind is
// served.
type definition struct {
	kube.Object
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
		Conversion struct {
			Strategy string `json:"strategy"`
		} `json:"conversion"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// established waits until objects of an installed kind can be listed.
func established(ctx context.Context, client *kube.Client, m Manifest) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	d, err := kube.ViewOf[definition](client, kube.Kind{GVK: m.GVK}).Until(ctx, m.Name, func(d *definition) bool {
		for _, c := range d.Status.Conditions {
			if c.Type == "Established" {
				return c.Status == "True"
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	if d.Spec.Conversion.Strategy == "Webhook" {
		return nil // objects can be listed when the program that converts them runs
	}
	for _, v := range d.Spec.Versions {
		if !v.Served {
			continue
		}
		gvk := kube.GVK{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind}
		if err := listable(ctx, client, gvk); err != nil {
			return err
		}
	}
	return nil
}

// listable waits until the server can list a kind that it already announces. For a moment
// its path is not found, or its storage is initializing.
func listable(ctx context.Context, client *kube.Client, gvk kube.GVK) error {
	for {
		var err error
		for _, err = range kube.ViewOf[kube.Object](client, kube.Kind{GVK: gvk}).List(ctx) {
			break // the first page is enough
		}
		if !errors.Is(err, kube.ErrNotServed) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
