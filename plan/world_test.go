package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// garden is the owner in tests.
type garden struct {
	kube.Object
	Status struct {
		Status `json:",inline"`
		Seen   int `json:"seen"`
	} `json:"status,omitzero"`
}

func (garden) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Garden"} }

// plant is a child in tests. It is ready when its status says so.
type plant struct {
	kube.Object
	Spec struct {
		Size int `json:"size"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

func (plant) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Plant"} }

// world plays an API server with gardens and plants, as an http.RoundTripper. It is no
// more exact than its tests need. It checks with each write that the order is kept.
type world struct {
	mu    sync.Mutex
	rv    int
	all   map[string]metav1.Object // *garden or *plant by path
	notes []string                 // the requests, as "PATCH /path"
	story []string
	// broken are the rules that a request has broken.
	broken []string
	// foreign are the uids of plants of somebody else.
	foreign map[types.UID]bool
	// killAt is the number of requests after which the process is killed; negative: none.
	killAt int
	// lost says that the last request before the kill is executed and not answered.
	lost bool
	kill context.CancelFunc
	// refuse, if it is set, returns the code of an answer that refuses a request, or 0.
	refuse func(r *http.Request) int
	shed   *shed
	events []string // the events that were written, as "REASON NOTE"
}

const gardenPath = "/apis/example.com/v1/namespaces/default/gardens/eden"

func newWorld() *world {
	w := &world{all: make(map[string]metav1.Object), foreign: make(map[types.UID]bool), killAt: -1}
	w.shed = &shed{world: w, abandoned: func(string) bool { return false }}
	g := new(garden)
	g.APIVersion, g.Kind = "example.com/v1", "Garden"
	g.Namespace, g.Name, g.UID, g.ResourceVersion = "default", "eden", "uid-eden", "1"
	g.Finalizers = []string{"example.com/garden"}
	w.all[gardenPath] = g
	return w
}

func plantPath(name string) string { return "/apis/example.com/v1/namespaces/default/plants/" + name }

func (w *world) garden() *garden { return w.all[gardenPath].(*garden) }

func (w *world) plant(name string) *plant {
	p, _ := w.all[plantPath(name)].(*plant)
	return p
}

// snapshot returns all objects and tools without the versions of the objects.
func (w *world) snapshot() string {
	var all []string
	for _, path := range slices.Sorted(maps.Keys(w.all)) {
		raw, err := json.Marshal(w.all[path])
		if err != nil {
			panic(err)
		}
		version, err := json.Marshal(w.all[path].GetResourceVersion())
		if err != nil {
			panic(err)
		}
		all = append(all, strings.Replace(string(raw), `"resourceVersion":`+string(version), "", 1))
	}
	for _, t := range w.shed.tools {
		all = append(all, fmt.Sprintf("%+v", *t))
	}
	return strings.Join(all, "\n")
}

// plants returns the names of all plants.
func (w *world) plants() (names []string) {
	for path, o := range w.all {
		if _, ok := o.(*plant); ok {
			names = append(names, path[strings.LastIndex(path, "/")+1:])
		}
	}
	slices.Sort(names)
	return names
}

// grow makes plants ready, and ends the deletion of those that are being deleted.
func (w *world) grow(ready func(name string) bool) {
	for _, name := range w.plants() {
		p := w.plant(name)
		if p.DeletionTimestamp != nil {
			delete(w.all, plantPath(name))
			continue
		}
		status := metav1.ConditionFalse
		if ready(name) {
			status = metav1.ConditionTrue
		}
		p.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: status, Reason: "Grown"}}
		w.touch(p)
	}
}

func (p *plant) isReady() bool {
	return p.DeletionTimestamp == nil && len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Status == metav1.ConditionTrue
}

// planted is the status of a plant that its controller has seen. It is ready as soon as it exists, unless a
// test lets it grow.
func planted() []metav1.Condition {
	return []metav1.Condition{{Type: "Planted", Status: metav1.ConditionUnknown, Reason: "Seen"}}
}

func (w *world) touch(o metav1.Object) {
	w.rv++
	o.SetResourceVersion(strconv.Itoa(100 + w.rv))
}

var errKilled = errors.New("the process was killed")

// process returns handles of a process of the operator, and a context that ends when the
// process is killed.
func (w *world) process(ctx context.Context) (context.Context, kube.Resource[garden], kube.Resource[plant]) {
	ctx, w.kill = context.WithCancel(ctx)
	client, err := kube.Config{Rest: &rest.Config{Host: "http://world", Transport: w}, Namespace: "default"}.Connect()
	if err != nil {
		panic(err)
	}
	return ctx, kube.For[garden](client), kube.For[plant](client)
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.URL.Path == "/apis/example.com/v1" {
		return respond(200, map[string]any{"kind": "APIResourceList", "resources": []any{
			map[string]any{"name": "gardens", "kind": "Garden", "namespaced": true},
			map[string]any{"name": "plants", "kind": "Plant", "namespaced": true},
		}})
	}
	if r.URL.Path == "/api/v1" {
		return respond(200, map[string]any{"kind": "APIResourceList", "resources": []any{
			map[string]any{"name": "secrets", "kind": "Secret", "namespaced": true},
		}})
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if strings.HasSuffix(r.URL.Path, "/events") || strings.Contains(r.URL.Path, "/events/") {
		return w.event(r)
	}
	if w.killed() {
		return nil, errKilled
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	w.notes = append(w.notes, r.Method+" "+r.URL.Path)
	w.story = append(w.story, fmt.Sprint(time.Now().Format("15:04:05 "), r.Method, " ", path.Base(r.URL.Path), " ", strings.ReplaceAll(string(body), "\n", "")))
	code := 0
	if w.refuse != nil {
		code = w.refuse(r)
	}
	var resp any
	if code == 0 {
		code, resp = w.serve(r, body)
	}
	if code >= 400 {
		reason := map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict}[code]
		if code == 409 && r.Method == http.MethodPost {
			reason = metav1.StatusReasonAlreadyExists
		}
		resp = metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason,
			Message: "refused", Details: &metav1.StatusDetails{Name: "x", Kind: "plants"},
		}
	}
	if w.unanswered() {
		return nil, errKilled
	}
	return respond(code, resp)
}

// killed counts a request or a call, and reports that the process is killed before it.
func (w *world) killed() bool {
	if w.killAt == 0 && !w.lost {
		w.kill()
		return true
	}
	w.killAt--
	return false
}

// event keeps an event.
func (w *world) event(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		return respond(200, new(eventsv1.Event)) // the series of an event
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var e eventsv1.Event
	if err := decode(body, &e); err != nil {
		return nil, err
	}
	if e.Reason != "" {
		w.events = append(w.events, e.Reason+" "+e.Note)
	}
	return respond(201, e)
}

// decode decodes an object of a built-in kind: see k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
func decode(body []byte, into interface{ Unmarshal(raw []byte) error }) error {
	var envelope runtime.Unknown
	raw, is := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !is {
		return errors.New("the object is not in protobuf")
	}
	return errors.Join(envelope.Unmarshal(raw), into.Unmarshal(envelope.Raw))
}

// calm lets everything succeed.
func (w *world) calm() { w.killAt, w.lost, w.refuse, w.shed.fault = -1, false, nil, nil }

// unanswered reports that the process is killed after a request or call was executed.
func (w *world) unanswered() bool {
	if w.killAt == -1 && w.lost {
		w.kill()
		return true
	}
	return false
}

func (w *world) serve(r *http.Request, body []byte) (int, any) {
	path, isStatus := strings.CutSuffix(r.URL.Path, "/status")
	o := w.all[path]
	if strings.Contains(path, "/secrets") {
		return w.secret(r, path, body)
	}
	switch {
	case r.Method == http.MethodGet && strings.HasPrefix(gardenPath, path+"/"):
		return 200, map[string]any{
			"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []any{map[string]any{
				"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": w.garden().ObjectMeta,
			}},
		}
	case r.Method == http.MethodGet && o == nil, r.Method == http.MethodDelete && o == nil:
		return 404, nil
	case r.Method == http.MethodGet:
		return 200, o
	case r.Method == http.MethodPatch && isStatus:
		var sent garden
		if err := json.Unmarshal(body, &sent); err != nil {
			return 400, nil
		}
		o.(*garden).Status = sent.Status
		w.touch(o)
		return 200, o
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == string(types.MergePatchType):
		var sent plant
		if err := json.Unmarshal(body, &sent); err != nil {
			return 400, nil
		}
		if sent.UID != o.GetUID() || sent.ResourceVersion != o.GetResourceVersion() {
			return 409, nil
		}
		o.SetOwnerReferences(sent.OwnerReferences)
		delete(o.GetAnnotations(), Mark)
		w.touch(o)
		return 200, o
	case r.Method == http.MethodPatch && r.URL.Query().Has("dryRun"):
		return 200, json.RawMessage(body)
	case r.Method == http.MethodPatch:
		return w.apply(path, body)
	case r.Method == http.MethodDelete:
		return w.delete(path, body)
	}
	return 405, nil
}

// secret serves the witnesses of plans with Marks.
func (w *world) secret(r *http.Request, path string, body []byte) (int, any) {
	o := w.all[path]
	switch {
	case r.Method == http.MethodPost:
		var sent corev1.Secret
		if decode(body, &sent) != nil {
			return 400, nil
		}
		if path += "/" + sent.Name; w.all[path] != nil {
			return 409, nil
		}
		w.touch(&sent)
		sent.APIVersion, sent.Kind, sent.Namespace, sent.UID = "v1", "Secret", "default", types.UID("uid-secret-"+sent.ResourceVersion)
		w.all[path] = &sent
		return 201, &sent
	case o == nil:
		return 404, nil
	case r.Method == http.MethodDelete:
		delete(w.all, path)
	}
	return 200, o
}

// orphan plays the garbage collector and an owner that is deleted with the option to orphan.
func (w *world) orphan() {
	for _, o := range w.all {
		if _, is := o.(*garden); !is {
			o.SetOwnerReferences(nil)
			w.touch(o)
		}
	}
}

func (w *world) apply(path string, body []byte) (int, any) {
	var sent plant
	if err := json.Unmarshal(body, &sent); err != nil {
		return 400, nil
	}
	p, _ := w.all[path].(*plant)
	if p == nil {
		p = new(plant)
		p.Namespace, p.Name = sent.Namespace, sent.Name
		p.UID, p.Status.Conditions = types.UID("uid-"+strconv.Itoa(w.rv)), planted()
		w.all[path] = p
	}
	if w.foreign[p.UID] {
		w.broken = append(w.broken, "a foreign object was applied: "+p.Name)
	}
	w.mayMake(p.Name, sent.Annotations["needs"])
	p.APIVersion, p.Kind = "example.com/v1", "Plant"
	p.Labels, p.Annotations, p.OwnerReferences = sent.Labels, maps.Clone(sent.Annotations), sent.OwnerReferences
	p.Spec = sent.Spec
	w.touch(p)
	return 200, p
}

// mayMake checks that all needs of a plant or tool are ready.
func (w *world) mayMake(name, needs string) {
	for need := range strings.SplitSeq(needs, ",") {
		ready := w.shed.has(need)
		if p := w.plant(need); p != nil {
			ready = p.isReady()
		}
		if need != "" && !ready {
			w.broken = append(w.broken, fmt.Sprintf("%s was made before %s was ready", name, need))
		}
	}
}

// mayDelete checks that nothing is there that needs a plant or tool.
func (w *world) mayDelete(name string) {
	needs := func(needs string) bool { return slices.Contains(strings.Split(needs, ","), name) }
	for _, other := range w.plants() {
		p := w.plant(other)
		released := len(p.OwnerReferences) == 0 && p.Annotations[Mark] == ""
		if !released && p.DeletionTimestamp == nil && needs(p.Annotations["needs"]) {
			w.broken = append(w.broken, fmt.Sprintf("%s was deleted before %s", name, other))
		}
	}
	for _, t := range w.shed.tools {
		if needs(t.Needs) && !w.shed.abandoned(t.Name) {
			w.broken = append(w.broken, fmt.Sprintf("%s was deleted before %s", name, t.Name))
		}
	}
}

func (w *world) delete(path string, body []byte) (int, any) {
	p := w.all[path].(*plant)
	var options metav1.DeleteOptions
	if err := json.Unmarshal(body, &options); err != nil || options.Preconditions == nil {
		w.broken = append(w.broken, "a deletion without preconditions")
		return 400, nil
	}
	if *options.Preconditions.UID != p.UID || *options.Preconditions.ResourceVersion != p.ResourceVersion {
		return 409, nil
	}
	if w.foreign[p.UID] {
		w.broken = append(w.broken, "a foreign object was deleted: "+p.Name)
	}
	w.mayDelete(p.Name)
	if *options.PropagationPolicy == metav1.DeletePropagationForeground {
		now := metav1.Now()
		p.DeletionTimestamp, p.Finalizers = &now, []string{metav1.FinalizerDeleteDependents}
		w.touch(p)
		return 200, p
	}
	delete(w.all, path)
	return 200, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success", Details: &metav1.StatusDetails{UID: p.UID},
	}
}

func respond(code int, v any) (*http.Response, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// refuseOnce returns a function that refuses one request, after some others.
func refuseOnce(after, code int) func(*http.Request) int {
	return func(*http.Request) int {
		if after--; after == -1 {
			return code
		}
		return 0
	}
}

// read returns a copy of the garden, as a store would.
func (w *world) read() *garden {
	raw, err := json.Marshal(w.garden())
	if err != nil {
		panic(err)
	}
	g := new(garden)
	if err := json.Unmarshal(raw, g); err != nil {
		panic(err)
	}
	g.ManagedFields = nil
	return g
}
