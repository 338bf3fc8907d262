package thirdparty

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// openTelemetry is the code in the comment of controller.TraceFunc.
func openTelemetry(tracer trace.Tracer) controller.TraceFunc {
	return func(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, func(error, ...slog.Attr)) {
		ctx, span := tracer.Start(ctx, name)
		for _, a := range attrs {
			span.SetAttributes(attribute.String(a.Key, a.Value.String()))
		}
		return ctx, func(err error, attrs ...slog.Attr) {
			for _, a := range attrs {
				span.SetAttributes(attribute.String(a.Key, a.Value.String()))
			}
			if err != nil {
				span.RecordError(err)
				span.SetStatus(codes.Error, err.Error())
			}
			span.End()
		}
	}
}

func TestTraces(t *testing.T) {
	client, namespace := connect(t)
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	tracer := provider.Tracer("test")
	objects := kube.For[corev1.ConfigMap](client).In(namespace).Labeled("traced")
	made := make(map[string]*corev1.ConfigMap)
	for _, name := range []string{"good", "bad", "panics"} {
		o := new(corev1.ConfigMap)
		o.Name, o.Labels = name, map[string]string{"traced": ""}
		created, err := objects.Create(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		made[name] = created
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var left atomic.Int32
	left.Store(int32(len(made)))
	// The code that runs the program may be in a span too.
	runs, root := tracer.Start(ctx, "run")
	err := controller.Run(runs, controller.Options{Trace: openTelemetry(tracer), Logger: slog.New(slog.DiscardHandler)},
		controller.Controller[corev1.ConfigMap]{
			Name: "traced", For: objects, Backoff: controller.Backoff{Min: time.Hour, Max: time.Hour},
			Reconcile: func(ctx context.Context, o *corev1.ConfigMap) (controller.Action, error) {
				defer func() {
					if left.Add(-1) == 0 {
						cancel()
					}
				}()
				_, span := tracer.Start(ctx, "inside "+o.Name)
				defer span.End()
				switch o.Name {
				case "bad":
					return controller.Done, errors.New("broken")
				case "panics":
					panic("no such thing")
				}
				return controller.Done, nil
			},
		})
	if err != nil {
		t.Fatal(err)
	}
	root.End()

	all := spans.GetSpans()
	named := func(name string) tracetest.SpanStub {
		t.Helper()
		i := slices.IndexFunc(all, func(s tracetest.SpanStub) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("no span %q", name)
		}
		return all[i]
	}
	for name, want := range map[string]sdktrace.Status{
		"good":   {Code: codes.Unset},
		"bad":    {Code: codes.Error, Description: "broken"},
		"panics": {Code: codes.Error, Description: "panic: no such thing"},
	} {
		inside := named("inside " + name)
		i := slices.IndexFunc(
			all, func(s tracetest.SpanStub) bool { return s.SpanContext.SpanID() == inside.Parent.SpanID() },
		)
		if i < 0 {
			t.Fatalf("the spans of the reconcile of %s are missing", name)
		}
		s := all[i]
		if s.Name != "reconcile traced" || s.Parent.SpanID() != root.SpanContext().SpanID() {
			t.Errorf("%s: span %q in %v, want one of the reconcile in that of the program", name, s.Name, s.Parent.SpanID())
		}
		if s.Status != want {
			t.Errorf("%s: status %v, want %v", name, s.Status, want)
		}
		if failed := len(s.Events) == 1 && s.Events[0].Name == "exception"; failed != (want.Code == codes.Error) {
			t.Errorf("%s: events %v", name, s.Events)
		}
		attrs := map[string]string{
			"controller": "traced", "namespace": namespace, "name": name, "uid": string(made[name].UID),
			"causes": "ConfigMap " + namespace + "/" + name + " listed",
		}
		for _, a := range s.Attributes {
			if attrs[string(a.Key)] != a.Value.AsString() {
				t.Errorf("%s: attribute %s is %q, want %q", name, a.Key, a.Value.AsString(), attrs[string(a.Key)])
			}
			delete(attrs, string(a.Key))
		}
		if len(attrs) > 0 {
			t.Errorf("%s: no attributes %v", name, attrs)
		}
	}
}

// The code in the comment of controller.TraceFunc is the code that is tested here.
func TestTraceIsAsDocumented(t *testing.T) {
	fset := token.NewFileSet()
	run, err := parser.ParseFile(fset, "../../controller/run.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for _, d := range run.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE || g.Specs[0].(*ast.TypeSpec).Name.Name != "TraceFunc" {
			continue
		}
		for line := range strings.Lines(g.Doc.Text()) {
			if code, ok := strings.CutPrefix(line, "\t"); ok {
				shown.WriteString(code)
			}
		}
	}
	source, err := os.ReadFile("trace_test.go")
	if err != nil {
		t.Fatal(err)
	}
	test, err := parser.ParseFile(fset, "trace_test.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var tested []byte
	for _, d := range test.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "openTelemetry" {
			returned := f.Body.List[0].(*ast.ReturnStmt).Results[0]
			tested = source[fset.Position(returned.Pos()).Offset:fset.Position(returned.End()).Offset]
		}
	}
	formatted := func(code []byte) string {
		f, err := format.Source(append([]byte("package p\n\nvar f = "), bytes.TrimSpace(code)...))
		if err != nil {
			t.Fatalf("%v:\n%s", err, code)
		}
		return string(f)
	}
	if want, got := formatted(tested), formatted([]byte(shown.String())); got != want {
		t.Errorf("the comment shows:\n%s\nwhat is tested:\n%s", got, want)
	}
}
