// Package browser_test looks at the page of plan/page with Chromium, as people do.
package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/internal/leak"
	"github.com/pintle-go/pintle/internal/testport"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/plan/page"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

const (
	// requireVariable, set to 1, requires Chromium: a test fails in place of being skipped.
	requireVariable = "PINTLE_REQUIRE_BROWSER"
	// picturesVariable names a folder for pictures of the page. Without it none are taken.
	picturesVariable = "PINTLE_PICTURES"
	// patience is the longest time that a step may take on a busy machine.
	patience = time.Minute
)

// A Shop is an owner. The tests write its status, as a plan would.
type Shop struct {
	kube.Object
	Spec struct {
		Problem string `json:"problem,omitempty"`
	} `json:"spec,omitzero"`
	Status plan.Status `json:"status,omitzero"`
}

func (Shop) GVK() kube.GVK {
	return kube.GVK{Group: "browser.example.com", Version: "v1", Kind: "Shop"}
}

// world is an operator with a page, and a browser.
type world struct {
	*testing.T
	client    *kube.Client
	shops     kube.Resource[Shop]
	namespace string
	address   string
	tab       context.Context //nolint:containedctx // chromedp keeps the browser's tab in it

	requests atomic.Int32 // of the browser

	mu     sync.Mutex
	faults []string // requests to other hosts, and errors in the page
}

func newWorld(t *testing.T, open bool) *world {
	t.Helper()
	return newWorldIn(t, open, func(cluster *kubetest.Cluster) string { return cluster.Namespace(t) })
}

func newWorldIn(t *testing.T, open bool, namespace func(*kubetest.Cluster) string) *world {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil && os.Getenv(requireVariable) != "1" {
		t.Skip("needs chromium")
	} else if err != nil {
		t.Fatal(err)
	}
	cluster := kubetest.Start(t, kubetest.Options{})
	w := &world{T: t, namespace: namespace(cluster)}
	w.client, err = kube.Config{Rest: cluster.Config(), FieldManager: "browser"}.Connect()
	w.ok(err)
	t.Cleanup(w.client.Close)
	w.shops = kube.For[Shop](w.client).In(w.namespace)
	definition := crd.Of[Shop](crd.Options{})
	w.ok(crd.Install(t.Context(), w.client, definition))
	w.operate(open)
	w.browse(program)
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// operate runs the operator until the test ends.
func (w *world) operate(open bool) {
	w.Helper()
	w.address = testport.Address(w.T)
	shown := page.New(w.shops, func(s *Shop) *plan.Status { return &s.Status })
	shown.Open = open
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() {
		options := controller.Options{Address: w.address, Routes: shown.Routes("/plans/")}
		ended <- controller.Run(ctx, options, controller.Controller[Shop]{
			For:     w.shops,
			Backoff: controller.Backoff{Min: time.Hour, Max: time.Hour},
			Reconcile: shown.Remember(func(_ context.Context, s *Shop) (controller.Action, error) {
				if s.Spec.Problem != "" {
					return controller.Done, errors.New(s.Spec.Problem)
				}
				return controller.Done, nil
			}),
		})
	}()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
}

// browse starts a browser, which notes faults until the test ends.
func (w *world) browse(program string) {
	w.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, // root has no sandbox
		chromedp.WindowSize(1280, 900), chromedp.UserDataDir(w.TempDir()))
	allocated, stop := chromedp.NewExecAllocator(context.WithoutCancel(w.Context()), options...)
	tab, leave := chromedp.NewContext(allocated, chromedp.WithListener(w.listen))
	w.tab = tab
	w.Cleanup(func() {
		if err := chromedp.Cancel(tab); err != nil { // waits for the browser's end
			w.Error(err)
		}
		leave()
		stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, f := range w.faults {
			w.Error(f)
		}
	})
	w.ok(chromedp.Do(tab)) // this starts the browser, which lives as long as the context
	_, err := chromedp.Call(tab, network.Enable, network.EnableParams{})
	w.ok(err)
	_, err = chromedp.Call(tab, log.Enable, cdp.Empty{})
	w.ok(err)
}

// listen notes faults.
func (w *world) listen(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Scheme != "data" && u.Host != w.address {
			w.fault("a request to " + e.Request.URL)
		}
		w.requests.Add(1)
	case *runtime.EventExceptionThrown:
		w.fault("an exception: " + (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "the server responded with a status of") {
			w.fault("an error: " + e.Entry.Text)
		}
	}
}

func (w *world) fault(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, text)
}

// do does things in the browser, in some time.
func (w *world) do(actions ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.tab, patience)
	defer cancel()
	w.ok(chromedp.Do(ctx, actions...))
}

// open opens the page with a part of its address.
func (w *world) open(fragment string) {
	w.Helper()
	w.do(chromedp.Navigate("http://" + w.address + "/plans/" + fragment))
}

// until waits until an expression of JavaScript is true.
func (w *world) until(expression string) {
	w.Helper()
	kubetest.Eventually(w, expression, func() error {
		if !read[bool](w, "!!("+expression+")") {
			return errors.New(read[string](w, "document.body.innerText"))
		}
		return nil
	})
}

// read returns the value of an expression, or of its promise.
func read[V any](w *world, expression string) V {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.tab, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		w.Fatalf("%s: %v", expression, err)
	}
	return value
}

// check fails unless an expression is true.
func (w *world) check(expression string) {
	w.Helper()
	if !read[bool](w, "!!("+expression+")") {
		w.Errorf("not so: %s", expression)
	}
}

func (w *world) press(keys string) {
	w.Helper()
	w.do(chromedp.KeyEvent(keys))
}

// picture takes pictures of the page, in light and in dark, if somebody wants to look.
func (w *world) picture(name string) {
	w.Helper()
	folder := os.Getenv(picturesVariable)
	if folder == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		_, err := chromedp.Call(w.tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		w.ok(err)
		time.Sleep(600 * time.Millisecond) // the colours change
		png, err := chromedp.Run(w.tab, chromedp.CaptureScreenshot())
		w.ok(err)
		w.ok(os.WriteFile(filepath.Join(folder, name+"-"+scheme+".png"), png, 0o600))
	}
}

// shop creates or replaces a shop with its nodes.
func (w *world) shop(name, problem string, nodes ...plan.NodeStatus) {
	w.Helper()
	s := new(Shop)
	s.Name, s.Spec.Problem = name, problem
	_, err := w.shops.Apply(w.Context(), s)
	w.ok(err)
	w.status(name, nodes...)
}

// status writes the status that a plan with the nodes would have.
func (w *world) status(name string, nodes ...plan.NodeStatus) {
	w.Helper()
	s := new(Shop)
	s.Name = name
	s.Status = plan.Status{Summary: "Ready", Since: metav1.Now(), Nodes: nodes}
	ready := 0
	for i, n := range nodes {
		if n.Since.IsZero() {
			nodes[i].Since = metav1.NewTime(time.Now().Add(-90 * time.Second))
		}
		if n.State != plan.Ready {
			s.Status.Summary = "waiting for " + n.Name + ": " + n.Message
		} else {
			ready++
		}
	}
	s.Status.ReadyNodes = fmt.Sprintf("%d/%d", ready, len(nodes))
	w.ok(w.shops.Status().Apply(w.Context(), s))
}
