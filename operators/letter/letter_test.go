package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/optest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

var binary = optest.Binary{Package: "github.com/pintle-go/pintle/operators/letter"}

func TestMain(m *testing.M) {
	optest.Main(m, &binary)
}

// patience is how long a step may take on a busy machine.
const patience = 90 * time.Second

// desk is a namespace in which letters are written.
type desk struct {
	*testing.T
	letters   kube.Resource[Letter]
	templates kube.Resource[corev1.ConfigMap]
	// proxy, if it is not nil, knows whether a request was refused: then the test stops
	// waiting.
	proxy    *optest.Proxy
	operator *program.Program
}

func newDesk(t *testing.T, client *kube.Client, namespace string) *desk {
	t.Helper()
	return &desk{
		T: t, letters: kube.For[Letter](client).In(namespace), templates: kube.For[corev1.ConfigMap](client).In(namespace),
	}
}

// served returns a desk with the operator beside it.
func served(t *testing.T) *desk {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	namespace := cluster.Namespace(t)
	d := newDesk(t, optest.Client(t, cluster.Config()), namespace)
	d.operator = binary.Run(t, optest.Kubeconfig(t, cluster.Config(), namespace, ""), "-addr=127.0.0.1:0")
	optest.Expect(t, d.operator, "controller runs", "controller=letter")
	return d
}

func (d *desk) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// write creates a letter or changes it.
func (d *desk) write(name, template, to string) {
	d.Helper()
	l := new(Letter)
	l.Name, l.Spec.Template, l.Spec.To = name, template, to
	_, err := d.letters.Apply(d.Context(), l)
	d.ok(err)
}

// template creates a template or changes it.
func (d *desk) template(name, text string) {
	d.Helper()
	o := &corev1.ConfigMap{Data: map[string]string{"text": text}}
	o.Name = name
	_, err := d.templates.Apply(d.Context(), o)
	d.ok(err)
}

// reads waits until a letter has a text.
func (d *desk) reads(name, want string) {
	d.Helper()
	d.until(name+" reads "+want, func() bool {
		l, err := d.letters.Get(d.Context(), name)
		d.ok(err)
		return l.Status.Text == want
	})
}

// until waits until a condition holds, or a request is refused.
func (d *desk) until(what string, holds func() bool) {
	d.Helper()
	refused := func() bool { return d.proxy != nil && len(d.proxy.Used.Refused()) > 0 }
	kubetest.Eventually(d, what, func() error {
		if !refused() && !holds() {
			lines, _ := d.operator.Lines()
			return fmt.Errorf("not so, no request was refused, and the operator has said\n| %s", strings.Join(lines, "\n| "))
		}
		return nil
	})
}

// TestLetters writes letters, changes their templates, and takes a template away.
func TestLetters(t *testing.T) {
	d := served(t)
	d.write("early", "invitation", "Ahab") // before there is a template
	d.template("invitation", "Dear NAME, come!")
	d.reads("early", "Dear Ahab, come!")
	d.write("other", "farewell", "Starbuck")
	d.template("farewell", "Farewell, NAME.")
	d.reads("other", "Farewell, Starbuck.")

	d.template("invitation", "NAME, where are you?")
	d.reads("early", "Ahab, where are you?")
	d.reads("other", "Farewell, Starbuck.")
	d.write("other", "invitation", "Starbuck")
	d.reads("other", "Starbuck, where are you?")
	d.template("farewell", "Nobody reads this, NAME.")
	d.template("invitation", "NAME!")
	d.reads("early", "Ahab!")
	d.reads("other", "Starbuck!")

	d.ok(d.templates.Delete(t.Context(), "invitation"))
	d.reads("early", "")
	d.reads("other", "")
	d.template("invitation", "NAME is back")
	d.reads("early", "Ahab is back")
	d.reads("other", "Starbuck is back")
}

// rests waits until no reconcile runs and none waits. A letter has its text before the
// operator has counted the request that wrote the text.
func (d *desk) rests() {
	d.Helper()
	d.until("the operator rests", func() bool {
		return optest.Metric(d.T, d.operator, `(?:controller_runtime_active_workers|workqueue_depth)\{`) == 0
	})
}

// TestReadsAreFree counts the requests for a changed template: one write for each of its
// letters, and no read.
func TestReadsAreFree(t *testing.T) {
	d := served(t)
	const letters = 20
	d.template("invitation", "Dear NAME")
	for i := range letters {
		d.write(fmt.Sprint("letter-", i), "invitation", "reader")
	}
	requests := func(method string) int {
		return optest.Metric(t, d.operator, `rest_client_requests_total\{.*method="`+method+`"`)
	}
	all := func(want string) {
		t.Helper()
		for i := range letters {
			d.reads(fmt.Sprint("letter-", i), want)
		}
		d.rests()
	}
	all("Dear reader")
	reads, writes := requests("GET"), requests("PATCH")
	d.template("unused", "Dear NAME")
	d.template("invitation", "Good bye, NAME")
	all("Good bye, reader")
	if reads, writes = requests("GET")-reads, requests("PATCH")-writes; reads != 0 || writes != letters {
		t.Errorf("%d letters took %d reads and %d writes", letters, reads, writes)
	}
}

// TestProgramIsShort holds the promise that the whole operator is at most 50 lines of
// code below its imports.
func TestProgramIsShort(t *testing.T) { optest.IsShort(t, "main.go", 50) }
