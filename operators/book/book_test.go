package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

const definition = "book/crd.yaml"

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/book"}

func TestMain(m *testing.M) {
	optest.Main(m, &binary)
}

// TestEvents sees every kind of event printed, and checks that the shipped definition
// requires a title.
func TestEvents(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace := cluster.Namespace(t)
	client := optest.Client(t, cluster.Config())
	optest.Apply(t, client, "", optest.Read(t, definition)...)
	book := binary.Run(t, optest.Kubeconfig(t, cluster.Config(), namespace, ""))
	books := kube.For[Book](client).In(namespace)

	optest.Apply(t, client, namespace, optest.Read(t, "book/sample.yaml")...)
	optest.Expect(t, book, "ADDED moby-dick Moby-Dick; or, The Whale")
	optest.Expect(t, book, "ADDED beowulf Beowulf")
	beowulf, err := books.Get(t.Context(), "beowulf")
	if err != nil {
		t.Fatal(err)
	}
	beowulf.Spec.Title = "Bēowulf"
	if _, err := books.Update(t.Context(), beowulf); err != nil {
		t.Fatal(err)
	}
	optest.Expect(t, book, "MODIFIED beowulf Bēowulf")
	if err := books.Delete(t.Context(), "beowulf"); err != nil {
		t.Fatal(err)
	}
	optest.Expect(t, book, "DELETED beowulf Bēowulf")

	_, err = books.Create(t.Context(), &Book{Object: named("untitled")})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.title") {
		t.Errorf("a book without a title: %v", err)
	}
}

// TestTroubles takes away the API server and the definition, and gives them back.
func TestTroubles(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{Private: true, ServerOnly: true})
	client := optest.Client(t, cluster.Config())
	book := binary.Run(t, optest.Kubeconfig(t, cluster.Config(), "default", ""))

	optest.Expect(t, book,
		"watch Book", "has no Book in example.technosophos.com/v1", "install its CustomResourceDefinition", "trying again")
	optest.Apply(t, client, "", optest.Read(t, definition)...)
	if _, err := kube.For[Book](client).In("default").Create(t.Context(), titled("first", "The First")); err != nil {
		t.Fatal(err)
	}
	optest.Expect(t, book, "RECOVERED")
	optest.Expect(t, book, "ADDED first The First")

	if err := cluster.APIServer().Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	optest.Expect(t, book, "watch Book", "trying again")
	late := binary.Run(t, optest.Kubeconfig(t, cluster.Config(), "default", ""))
	optest.Expect(t, late, "cannot reach the API server at 127.0.0.1:", "is it running?", "trying again")
	if err := cluster.APIServer().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.For[Book](client).In("default").Create(t.Context(), titled("second", "The Second")); err != nil {
		t.Fatal(err)
	}
	optest.Expect(t, late, "RECOVERED")
	for _, p := range []*program.Program{book, late} {
		optest.Expect(t, p, "ADDED second The Second")
	}
}

// TestBadInput checks book's messages when it cannot start or is refused.
func TestBadInput(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.Options{})
	namespace := cluster.Namespace(t)
	optest.Apply(t, optest.Client(t, cluster.Config()), "", optest.Read(t, definition)...)
	dir := t.TempDir()
	broken, empty := filepath.Join(dir, "broken"), filepath.Join(dir, "empty")
	for path, content := range map[string]string{broken: "{clusters", empty: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, kubeconfig string
		ends             bool
		want             []string
	}{
		{"missing", filepath.Join(dir, "none"), true, []string{"load kubeconfig: ", "none does not exist", "set KUBECONFIG or start a cluster"}},
		{"broken", broken, true, []string{"load kubeconfig: ", broken}},
		{"empty", empty, true, []string{"load kubeconfig: ", "has no current cluster", "is current-context set"}},
		{"unauthorized", optest.Kubeconfig(t, cluster.Config(), namespace, "wrong"), false,
			[]string{"does not accept the credentials", "see the kubeconfig's user", "trying again"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			book := binary.Run(t, test.kubeconfig)
			line := optest.Expect(t, book, test.want...)
			t.Log(line)
			if test.ends {
				if code := optest.ExpectEnd(t, book); code != 1 {
					t.Errorf("it ended with status %d", code)
				}
			}
			if lines, _ := book.Lines(); len(lines) != 1 {
				t.Errorf("it said\n%s", strings.Join(lines, "\n"))
			}
		})
	}
}

// TestProgramIsShort checks the promise that the program has under 30 lines below its
// imports, its type included.
func TestProgramIsShort(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(source), "\n)\n")
	if n := strings.Count(below, "\n"); !found || n >= 30 {
		t.Errorf("%d lines", n)
	}
}

func named(name string) kube.Object {
	var o kube.Object
	o.Name = name
	return o
}

func titled(name, title string) *Book {
	b := &Book{Object: named(name)}
	b.Spec.Title = title
	return b
}
