package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	dune = `{"apiVersion":"library.example.com/v1","kind":"Book","metadata":{"name":"dune"},"spec":{"title":"Dune"}}`
	emma = `{"apiVersion":"library.example.com/v1","kind":"Book","metadata":{"name":"dune"},"spec":{"title":"Emma"}}`
)

// These are the rows of controller-runtime's validator_custom_test.go.
func TestValidateAnswers(t *testing.T) {
	books := offline(t).books
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "shelves"}, "a")
	for name, test := range map[string]struct {
		warn string
		err  error
		want metav1.Status
	}{
		"ok":                         {},
		"ok and a warning":           {warn: "careful"},
		"a status":                   {err: notFound, want: notFound.ErrStatus},
		"a status and a warning":     {warn: "careful", err: notFound, want: notFound.ErrStatus},
		"a wrapped status":           {err: fmt.Errorf("find: %w", notFound), want: notFound.ErrStatus},
		"an error":                   {err: errors.New("no"), want: *failure(403, "Forbidden", "no")},
		"an error and a warning":     {warn: "careful", err: errors.New("no"), want: *failure(403, "Forbidden", "no")},
		"a status that is a success": {err: &apierrors.StatusError{ErrStatus: metav1.Status{Status: "Success", Code: 200}}, want: metav1.Status{Status: "Failure", Code: 400}},
	} {
		answer := func(ctx context.Context) error {
			if test.warn != "" {
				Warn(ctx, test.warn)
			}
			return test.err
		}
		h := Validate(books, Checks[book]{
			Create: func(ctx context.Context, o *book) error { return answer(ctx) },
			Update: func(ctx context.Context, before, after *book) error {
				if before.Spec.Title != "Dune" || after.Spec.Title != "Emma" {
					t.Errorf("update of %+v to %+v", before.Spec, after.Spec)
				}
				return answer(ctx)
			},
			Delete: func(ctx context.Context, o *book) error {
				if o.Spec.Title != "Dune" {
					t.Errorf("deletion of %+v", o.Spec)
				}
				return answer(ctx)
			},
		})
		for _, q := range []*admissionv1.AdmissionRequest{
			ask("CREATE", emma, ""), ask("UPDATE", emma, dune), ask("DELETE", "", dune),
		} {
			t.Run(name+"/"+string(q.Operation), func(t *testing.T) {
				got := send1(t, h, q)
				if got.Allowed != (test.err == nil) || got.Patch != nil {
					t.Errorf("got %+v", got)
				}
				if want := strings.Fields(test.warn); len(want) != len(got.Warnings) || len(want) > 0 && got.Warnings[0] != want[0] {
					t.Errorf("warnings %q, want %q", got.Warnings, want)
				}
				if test.err != nil && got.Result == nil || test.err == nil && got.Result != nil {
					t.Fatalf("status %v", got.Result)
				}
				if got.Result != nil && (got.Result.Code != test.want.Code || got.Result.Reason != test.want.Reason ||
					got.Result.Status != "Failure" || test.want.Message != "" && got.Result.Message != test.want.Message) {
					t.Errorf("status %+v, want %+v", got.Result, test.want)
				}
			})
		}
	}
}

// controller-runtime has these four as pending.
func TestValidateUndecodable(t *testing.T) {
	h := Validate(offline(t).books, Checks[book]{
		Create: func(context.Context, *book) error { return nil },
		Update: func(context.Context, *book, *book) error { return nil },
		Delete: func(context.Context, *book) error { return nil },
	})
	const wrong = `{"metadata":{"name":"dune"},"spec":{"title":7}}`
	for name, q := range map[string]*admissionv1.AdmissionRequest{
		"create":              ask("CREATE", wrong, ""),
		"update":              ask("UPDATE", wrong, dune),
		"update of":           ask("UPDATE", dune, wrong),
		"delete":              ask("DELETE", "", wrong),
		"metadata":            ask("CREATE", `{"metadata":7}`, ""),
		"nothing":             ask("CREATE", "", ""),
		"an update without":   ask("UPDATE", dune, ""),
		"an update to a list": ask("UPDATE", `[]`, dune),
		"another operation":   ask("LIST", dune, ""),
	} {
		t.Run(name, func(t *testing.T) {
			if got := send1(t, h, q); got.Allowed || got.Result.Code != http.StatusBadRequest || got.Result.Message == "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// An update is validated if and only if its spec changed, deletion or not.
func TestValidateRatchets(t *testing.T) {
	h := Validate(offline(t).books, Checks[book]{
		Update: func(context.Context, *book, *book) error { return errors.New("a new rule") },
	})
	object := func(meta, spec, status string) string {
		return `{"apiVersion":"library.example.com/v1","kind":"Book","metadata":{` + meta + `},"spec":{` + spec + `},"status":{` + status + `}}`
	}
	old := object(`"finalizers":["a"]`, `"title":"x","u":1`, ``)
	const deleted = `"deletionTimestamp":"2026-01-01T00:00:00Z"`
	for name, test := range map[string]struct {
		to      string
		allowed bool
	}{
		"nothing":                       {old, true},
		"metadata":                      {object(`"labels":{"a":"b"}`, `"u":1,"title":"x"`, ``), true},
		"status":                        {object(`"finalizers":["a"]`, `"title":"x","u":1`, `"lent":true`), true},
		"the last finalizer":            {object(deleted, `"title":"x","u":1`, ``), true},
		"spec":                          {object(``, `"title":"y","u":1`, ``), false},
		"spec while it is deleted":      {object(deleted, `"title":"y","u":1`, ``), false},
		"a field that nobody here sees": {object(``, `"title":"x","u":2`, ``), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := send1(t, h, ask("UPDATE", test.to, old)); got.Allowed != test.allowed {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestValidateWithoutFunction(t *testing.T) {
	h := Validate(offline(t).books, Checks[book]{Delete: func(context.Context, *book) error { return errors.New("no") }})
	if got := send1(t, h, ask("CREATE", dune, "")); !got.Allowed {
		t.Errorf("got %+v", got)
	}
}

// The status of the main resource does not count, and that of the subresource does.
func TestValidateStatus(t *testing.T) {
	h := Validate(Sub[book](offline(t).books, "status"), Checks[book]{
		Update: func(_ context.Context, _, after *book) error {
			if after.Status.Lent {
				return errors.New("it is lent")
			}
			return nil
		},
	})
	lent := strings.Replace(dune, `"spec"`, `"status":{"lent":true},"spec"`, 1)
	q := ask("UPDATE", lent, dune)
	q.SubResource = "status"
	if got := send1(t, h, q); got.Allowed || got.Result.Message != "it is lent" {
		t.Errorf("got %+v", got)
	}
}

func TestValidateSubresource(t *testing.T) {
	pods := offline(t).pods
	asked := func(name, operation, object string, kind metav1.GroupVersionKind) *admissionv1.AdmissionRequest {
		q := ask(operation, object, "")
		q.SubResource, q.Kind = name, kind
		q.Resource = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
		return q
	}
	exec := Validate(Sub[corev1.PodExecOptions](pods, "exec"), Checks[corev1.PodExecOptions]{
		Connect: func(ctx context.Context, o *corev1.PodExecOptions) error {
			return fmt.Errorf("%s by %s in %s", o.Command, Request(ctx).User.Name, Request(ctx).Subresource)
		},
	})
	q := asked("exec", "CONNECT", `{"command":["sh"]}`, metav1.GroupVersionKind{Version: "v1", Kind: "PodExecOptions"})
	q.UserInfo = authenticationv1.UserInfo{Username: "eve"}
	if got := send1(t, exec, q); got.Allowed || got.Result.Message != "[sh] by eve in exec" {
		t.Errorf("got %+v", got)
	}
	scale := Validate(Sub[autoscalingv1.Scale](offline(t).books, "scale"), Checks[autoscalingv1.Scale]{
		Update: func(_ context.Context, before, after *autoscalingv1.Scale) error {
			return fmt.Errorf("from %d to %d", before.Spec.Replicas, after.Spec.Replicas)
		},
	})
	q = ask("UPDATE", `{"spec":{"replicas":2}}`, `{"spec":{"replicas":1}}`)
	q.SubResource, q.Kind = "scale", metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	if got := send1(t, scale, q); got.Allowed || got.Result.Message != "from 1 to 2" {
		t.Errorf("got %+v", got)
	}
}

func TestRequest(t *testing.T) {
	var got Admission
	h := Validate(offline(t).books, Checks[book]{
		Create: func(ctx context.Context, _ *book) error { got = Request(ctx); return nil },
		Delete: func(ctx context.Context, _ *book) error { got = Request(ctx); return nil },
	})
	dry := true
	q := ask("CREATE", dune, "")
	q.DryRun, q.RequestKind = &dry, &metav1.GroupVersionKind{Group: "library.example.com", Version: "v0", Kind: "Book"}
	q.Options.Raw = []byte(`{"fieldManager":"f"}`)
	q.UserInfo = authenticationv1.UserInfo{
		Username: "ann", UID: "1", Groups: []string{"readers"}, Extra: map[string]authenticationv1.ExtraValue{"a": {"b"}},
	}
	send1(t, h, q)
	old := book{}.GVK()
	old.Version = "v0"
	want := Admission{
		UID: "7", Operation: "CREATE", Kind: book{}.GVK(), RequestKind: old, Namespace: "shop", Name: "dune", DryRun: true,
		User:    User{"ann", "1", []string{"readers"}, map[string][]string{"a": {"b"}}},
		Options: []byte(`{"fieldManager":"f"}`),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	q = ask("DELETE", "", dune)
	q.Name = "" // as in a deletion of a collection
	if send1(t, h, q); got.Name != "dune" {
		t.Errorf("the name is %q", got.Name)
	}
	if r := Request(t.Context()); !reflect.DeepEqual(r, Admission{}) {
		t.Errorf("another context has %+v", r)
	}
}

func TestSideEffects(t *testing.T) {
	calls := 0
	h := Validate(offline(t).books, Checks[book]{Create: func(context.Context, *book) error { calls++; return nil }},
		Settings{SideEffects: true})
	dry := true
	q := ask("CREATE", dune, "")
	send1(t, h, q)
	q.DryRun = &dry
	if got := send1(t, h, q); !got.Allowed || calls != 1 {
		t.Errorf("%d calls, %+v", calls, got)
	}
}

func TestInvalid(t *testing.T) {
	title := field.NewPath("spec", "title")
	missing, long := field.Required(title, "a book has one"), field.TooLong(title, "", 5)
	shelf := Invalid("spec.shelf", "cellar", "it is wet")
	ours := field.Invalid(field.NewPath("spec", "shelf"), "cellar", "it is wet")
	for name, test := range map[string]struct {
		err    error
		fields field.ErrorList
		more   string
	}{
		"one":     {shelf, field.ErrorList{ours}, ""},
		"wrapped": {fmt.Errorf("check: %w", missing), field.ErrorList{missing}, ""},
		"joined":  {errors.Join(shelf, errors.Join(missing, nil)), field.ErrorList{ours, missing}, ""},
		"a list":  {field.ErrorList{missing, long}.ToAggregate(), field.ErrorList{missing, long}, ""},
		"mixed":   {errors.Join(errors.New("also this"), missing), field.ErrorList{missing}, "; also this"},
	} {
		t.Run(name, func(t *testing.T) {
			kind := book{}.GVK().GroupKind()
			want := apierrors.NewInvalid(kind, "dune", test.fields).ErrStatus
			want.Message += test.more
			if got := *refusal(test.err, kind, "dune"); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
	if got := refusal(errors.Join(errors.New("a"), errors.New("b")), schema.GroupKind{}, ""); got.Code != 403 || got.Message != "a\nb" {
		t.Errorf("got %+v", got)
	}
}

func TestWarn(t *testing.T) {
	Warn(t.Context(), "nobody gets it")
	for name, test := range map[string]struct {
		texts []string
		want  []string
	}{
		"twice":        {[]string{"a", "a", ""}, []string{"a"}},
		"two lines":    {[]string{"a\nb\x07\xff"}, []string{"a b \uFFFD"}},
		"a long one":   {[]string{strings.Repeat("é", 300)}, []string{strings.Repeat("é", 255) + "…"}},
		"at the limit": {[]string{strings.Repeat("é", 256)}, []string{strings.Repeat("é", 256)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &call{}
			for _, text := range test.texts {
				c.warn(text)
			}
			if got := c.told(); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	c := &call{}
	for i := range 34 {
		c.warn(fmt.Sprint(i, strings.Repeat("x", 300)))
	}
	told := c.told()
	if size := len([]rune(strings.Join(told, ""))); size > 4096 || len(told) != 16 || told[15] != "… and 19 more warnings" {
		t.Errorf("%d warnings of %d runes, the last is %q", len(told), size, told[len(told)-1])
	}
}
