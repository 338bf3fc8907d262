package threeway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// read returns the projection of T and T's JSON of raw before and after change.
func read[T any](t testing.TB, raw string, change func(*T)) (before, after []byte, project Project) {
	t.Helper()
	project = func(object []byte) ([]byte, error) {
		v := new(T)
		if err := json.Unmarshal(object, v); err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}
	before, err := project([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	v := new(T)
	if err := json.Unmarshal([]byte(raw), v); err != nil {
		t.Fatal(err)
	}
	change(v)
	if after, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	return before, after, project
}

type result struct {
	patch string
	err   error
}

func modify[T any](t testing.TB, raw string, change func(*T)) result {
	t.Helper()
	before, after, project := read(t, raw, change)
	patch, err := Patch([]byte(raw), before, after, project)
	return result{string(patch), err}
}

// view names a few of a Deployment's fields.
type view struct {
	Metadata struct {
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Replicas *int32 `json:"replicas,omitempty"`
		Paused   bool   `json:"paused,omitempty"`
		Strategy struct {
			Type string `json:"type,omitempty"`
		} `json:"strategy,omitzero"`
		Template struct {
			Spec struct {
				Containers []struct {
					Name  string `json:"name"`
					Image string `json:"image"`
				} `json:"containers"`
				Tolerations []struct {
					Effect string `json:"effect,omitempty"`
				} `json:"tolerations,omitempty"`
				Volumes []struct {
					Name     string `json:"name"`
					EmptyDir *struct {
						Medium string `json:"medium,omitempty"`
					} `json:"emptyDir,omitempty"`
				} `json:"volumes,omitempty"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment",
	"metadata":{"name":"web","labels":{"a":"1","b":"2"},"generation":9007199254740993},
	"spec":{"replicas":1,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%"}},
	"template":{"metadata":{"creationTimestamp":null},"spec":{
		"containers":[{"name":"a","image":"a:1","x":{"y":1.50}},{"name":"b","image":"b:1","resources":{}}],
		"tolerations":[{"key":"k1","effect":"NoSchedule"},{"key":"k2","effect":"NoSchedule"},{"key":"k3","effect":"NoExecute"}],
		"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi","medium":"Memory"}}]}}}}`

const (
	itemA       = `{"image":"a:1","name":"a","x":{"y":1.50}}`
	itemB       = `{"image":"b:1","name":"b","resources":{}}`
	tolerations = `{"effect":"NoSchedule","key":"k1"},{"effect":"NoSchedule","key":"k2"}`
)

func containers(items string) string {
	return `{"spec":{"template":{"spec":{"containers":[` + items + `]}}}}`
}

func TestPatchOfView(t *testing.T) {
	tests := map[string]struct {
		change func(*view)
		want   string
		err    error
	}{
		"nothing":         {func(v *view) {}, ``, nil},
		"pointer":         {func(v *view) { *v.Spec.Replicas = 0 }, `{"spec":{"replicas":0}}`, nil},
		"nil pointer":     {func(v *view) { v.Spec.Replicas = nil }, `{"spec":{"replicas":null}}`, nil},
		"left out before": {func(v *view) { v.Spec.Paused = true }, `{"spec":{"paused":true}}`, nil},
		"map": {func(v *view) {
			v.Metadata.Labels = map[string]string{"a": "3", "c": ""}
		}, `{"metadata":{"labels":{"a":"3","b":null,"c":""}}}`, nil},
		"map removed": {func(v *view) { v.Metadata.Labels = nil }, `{"metadata":{"labels":null}}`, nil},
		"member": {func(v *view) {
			v.Spec.Strategy.Type = "Recreate"
		}, `{"spec":{"strategy":{"type":"Recreate"}}}`, nil},
		"zero struct": {func(v *view) { v.Spec.Strategy.Type = "" }, `{"spec":{"strategy":{"type":null}}}`, nil},
		"item": {func(v *view) {
			v.Spec.Template.Spec.Containers[0].Image = "a:2"
		}, containers(`{"image":"a:2","name":"a","x":{"y":1.50}},` + itemB), nil},
		"items swapped": {func(v *view) {
			c := v.Spec.Template.Spec.Containers
			c[0], c[1] = c[1], c[0]
		}, containers(itemB + `,` + itemA), nil},
		"item removed": {func(v *view) {
			c := &v.Spec.Template.Spec.Containers
			*c = (*c)[1:]
		}, containers(itemB), nil},
		"items removed": {func(v *view) {
			v.Spec.Template.Spec.Containers = nil
		}, `{"spec":{"template":{"spec":{"containers":null}}}}`, nil},
		"no items": {func(v *view) { c := &v.Spec.Template.Spec.Containers; *c = (*c)[:0] }, containers(``), nil},
		"item added": {func(v *view) {
			c := &v.Spec.Template.Spec.Containers
			*c = append(*c, (*c)[0])
			(*c)[2].Name = "c"
		}, containers(itemA + `,` + itemB + `,{"image":"a:1","name":"c"}`), nil},
		"item renamed": {func(v *view) { v.Spec.Template.Spec.Containers[0].Name = "c" }, ``, ErrAmbiguous},
		"without name": {func(v *view) {
			v.Spec.Template.Spec.Tolerations[2].Effect = ""
		}, `{"spec":{"template":{"spec":{"tolerations":[` + tolerations + `,{"key":"k3"}]}}}}`, nil},
		"without name, gone": {func(v *view) {
			c := &v.Spec.Template.Spec.Tolerations
			*c = (*c)[:2]
		}, `{"spec":{"template":{"spec":{"tolerations":[` + tolerations + `]}}}}`, nil},
		"one of twins": {func(v *view) { c := &v.Spec.Template.Spec.Tolerations; *c = (*c)[1:] }, ``, ErrAmbiguous},
		"without name, shift": {func(v *view) {
			c := v.Spec.Template.Spec.Tolerations
			c[1].Effect = "NoExecute"
			c[2].Effect = "x"
		}, ``, ErrAmbiguous},
		"pointer in item": {func(v *view) {
			v.Spec.Template.Spec.Volumes[0].EmptyDir = nil
		}, `{"spec":{"template":{"spec":{"volumes":[{"name":"v"}]}}}}`, nil},
		"below pointer": {func(v *view) {
			v.Spec.Template.Spec.Volumes[0].EmptyDir.Medium = ""
		}, `{"spec":{"template":{"spec":{"volumes":[{"emptyDir":{"sizeLimit":"1Gi"},"name":"v"}]}}}}`, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := modify(t, deployment, tt.change)
			if got.patch != tt.want || !errors.Is(got.err, tt.err) {
				t.Errorf("got  %s, %v\nwant %s, %v", got.patch, got.err, tt.want, tt.err)
			}
		})
	}
}

func TestPatchOfWholeTypes(t *testing.T) {
	tests := map[string]struct{ got, want result }{
		"env renamed in place": {
			modify(
				t,
				`{"spec":{"template":{"spec":{"containers":[{"name":"a","resources":{},"env":[{"name":"A","value":"1"},{"name":"B"}]}]}}}}`,
				func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env[0].Name = "C" },
			),
			result{
				patch: `{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"C","value":"1"},{"name":"B"}],"name":"a","resources":{}}]}}}}`,
			},
		},
		"newer server's fields stay": {
			modify(t, `{"spec":{"new":1,"containers":[{"name":"a","new":{"x":1}}]}}`, func(p *corev1.Pod) {
				p.Spec.Containers[0].Image = "i"
			}),
			result{patch: `{"spec":{"containers":[{"image":"i","name":"a","new":{"x":1}}]}}`},
		},
		"nulls of nil lists are not sent": {
			modify(t, `{"metadata":{"name":"x"},"rules":[]}`, func(r *rbacv1.Role) {
				r.Rules = []rbacv1.PolicyRule{{Resources: []string{"pods"}}}
			}),
			result{patch: `{"rules":[{"resources":["pods"]}]}`},
		},
		"a volume becomes another": {
			modify(t, `{"spec":{"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}}],"containers":null}}`,
				func(p *corev1.Pod) {
					p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}
				}),
			result{patch: `{"spec":{"volumes":[{"hostPath":{"path":"/x"},"name":"v"}]}}`},
		},
		"a new struct": {
			modify(t, `{"spec":{"containers":[]}}`, func(p *corev1.Pod) {
				p.Spec.SecurityContext = &corev1.PodSecurityContext{}
			}),
			result{patch: `{"spec":{"securityContext":{}}}`},
		},
		"untyped": {
			modify(t, `{"a":{"n":null,"l":[{"x":null,"y":1}]},"b":1}`, func(m *map[string]any) {
				(*m)["a"].(map[string]any)["l"].([]any)[0].(map[string]any)["y"] = nil
				delete(*m, "b")
			}),
			result{patch: `{"a":{"l":[{"x":null,"y":null}]},"b":null}`},
		},
		"a null to store": {
			modify(t, `{"a":{"b":1}}`, func(m *map[string]any) { (*m)["a"].(map[string]any)["b"] = nil }),
			result{err: ErrInexpressible},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.got.patch != tt.want.patch || !errors.Is(tt.got.err, tt.want.err) {
				t.Errorf("got  %v\nwant %v", tt.got, tt.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	errProject := errors.New("cannot read")
	same := func(object []byte) ([]byte, error) { return object, nil }
	tests := map[string]struct {
		raw, before, after string
		project            Project
		want               string
	}{
		"raw":    {`{`, `{}`, `{}`, same, "parse the server's object"},
		"before": {`{}`, `[]`, `{}`, same, "parse the object before the change: not a JSON object"},
		"after":  {`{}`, `{}`, `{} {}`, same, "parse the object after the change: more than one"},
		"twins":  {`{}`, `{}`, `{"a":1,"a":2}`, same, "duplicate"},
		"project": {`{}`, `{}`, `{"a":1}`, func([]byte) ([]byte, error) {
			return nil, errProject
		}, "check patch: cannot read"},
		"no object": {`{"a":1}`, `{"a":{}}`, `{"a":{"b":1}}`, same, "ambiguous change: /a: it is an object in the type"},
		"lengths":   {`{"a":[1]}`, `{"a":[]}`, `{"a":[2]}`, same, "/a: the server's list has 1 items, the type sees 0"},
		"other case": {`{"A":1}`, `{"a":1}`, `{"a":2}`, func(object []byte) ([]byte, error) {
			if strings.Contains(string(object), "A") {
				return []byte(`{"a":1}`), nil // a projection that ignores case may do this
			}
			return object, nil
		}, "a merge patch cannot make this change: /a would differ from the change"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			patch, err := Patch([]byte(tt.raw), []byte(tt.before), []byte(tt.after), tt.project)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %s, %v, want error %q", patch, err, tt.want)
			}
			if name == "project" && !errors.Is(err, errProject) {
				t.Error("does not wrap the cause")
			}
		})
	}
}

func TestPrecondition(t *testing.T) {
	for patch, want := range map[string]string{
		`{"spec":{"a":null}}`:          `{"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"a":null}}`,
		`{"metadata":{"labels":null}}`: `{"metadata":{"labels":null,"resourceVersion":"7","uid":"u"}}`,
		`{"metadata":null,"n":1.50}`:   `{"metadata":{"resourceVersion":"7","uid":"u"},"n":1.50}`,
	} {
		got, err := Precondition([]byte(patch), "u", "7")
		if err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	if got, err := Precondition([]byte(`{}`), "", "7"); err != nil ||
		string(got) != `{"metadata":{"resourceVersion":"7"}}` {
		t.Errorf("got %s, %v", got, err)
	}
	for _, bad := range []string{`[]`, `{`} {
		if _, err := Precondition([]byte(bad), "u", "7"); err == nil {
			t.Errorf("no error for %s", bad)
		}
	}
}
