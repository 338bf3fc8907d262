package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/pintle-go/pintle/kube"
)

// token matches a JSON Web Token.
var webToken = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// secretKeys are the keys of Secrets whose values nobody may see elsewhere.
var secretKeys = []string{"password", "verifier", "AWS_SECRET_ACCESS_KEY"}

// hidden returns all passwords, tokens, keys and verifiers in the Secrets of the namespace.
func (l *land) hidden() map[string]string {
	l.Helper()
	found := map[string]string{} // places by value
	for s, err := range l.secrets.List(l.soon()) {
		l.ok(err)
		for key, value := range s.Data {
			at := "Secret " + s.Name + ", key " + key
			for _, token := range webToken.FindAllString(string(value), -1) {
				found[token] = at
			}
			if slices.Contains(secretKeys, key) {
				found[string(value)] = at
			}
			if strings.Contains(string(value), "PRIVATE KEY") {
				found[strings.Split(string(value), "\n")[1]] = at
			}
		}
	}
	// A test that looks for nothing finds nothing.
	for _, kind := range []string{"password", "AWS_SECRET_ACCESS_KEY", "private.pem", "verifier", "CONTROL_PLANE_JWT_TOKEN", "token", "config.json"} {
		if !slices.ContainsFunc(values(found), func(at string) bool { return strings.HasSuffix(at, "key "+kind) }) {
			l.Errorf("there is no secret at the key %s", kind)
		}
	}
	return found
}

func values(m map[string]string) (all []string) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// shown returns all that the operator and its pods show to people, by its place: objects without
// Secrets, events, the operator's output, and the command lines of the pods.
func (l *land) shown() map[string]string {
	l.Helper()
	all := map[string]string{}
	lines, _ := l.operator.Lines()
	all["the operator's output"] = strings.Join(lines, "\n")
	for pod, args := range l.runner.Commands() {
		all["the command line of pod "+pod] = strings.Join(args, " ")
	}
	collect(l, all, l.databases)
	collect(l, all, l.clusters)
	collect(l, all, l.projects)
	collect(l, all, l.branches)
	collect(l, all, l.endpoints)
	collect(l, all, l.roles)
	collect(l, all, l.contents)
	collect(l, all, kube.For[corev1.Pod](l.client).In(l.namespace))
	collect(l, all, kube.For[appsv1.StatefulSet](l.client).In(l.namespace))
	collect(l, all, kube.For[appsv1.Deployment](l.client).In(l.namespace))
	collect(l, all, kube.For[eventsv1.Event](l.client).In(l.namespace))
	return all
}

func collect[T any](l *land, into map[string]string, objects kube.Resource[T]) {
	l.Helper()
	var all []*T
	for o, err := range objects.List(l.soon()) {
		l.ok(err)
		all = append(all, o)
	}
	if len(all) == 0 {
		l.Errorf("there is no %s to look at", objects.Kind().GVK.Kind)
	}
	text, err := json.Marshal(all)
	l.ok(err)
	into["the objects of kind "+objects.Kind().GVK.Kind] = string(text)
}

// leaks looks for secrets in all that is shown.
func (l *land) leaks() {
	l.Helper()
	hidden, shown := l.hidden(), l.shown()
	for place, text := range shown {
		for value, at := range hidden {
			if strings.Contains(text, value) {
				l.Errorf("%s shows the secret of %s", place, at)
			}
		}
		for _, token := range webToken.FindAllString(text, -1) {
			l.Errorf("%s shows the token %.12s…", place, token)
		}
	}
}

// strict looks for programs that trust anybody: with --dev or without tokens.
func (l *land) strict() {
	l.Helper()
	for pod, args := range l.runner.Commands() {
		if slices.Contains(args, "--dev") {
			l.Errorf("pod %s runs with --dev: %q", pod, args)
		}
		line := strings.Join(args, " ")
		if strings.Contains(pod, "-safekeeper-") && (!strings.Contains(line, "--pg-auth-public-key-path=") ||
			!strings.Contains(line, "--http-auth-public-key-path=")) {
			l.Errorf("pod %s asks for no tokens: %q", pod, args)
		}
		if strings.Contains(pod, "-database-") && !strings.Contains(line, "--auth-host=scram-sha-256") {
			l.Errorf("pod %s asks for no passwords: %q", pod, args)
		}
	}
	s, err := l.secrets.Get(l.soon(), "orders-pageserver-1")
	l.ok(err)
	for _, want := range []string{"http_auth_type='NeonJWT'", "pg_auth_type='NeonJWT'", "grpc_auth_type='NeonJWT'"} {
		if !strings.Contains(string(s.Data["pageserver.toml"]), want) {
			l.Errorf("the pageserver's configuration lacks %s", want)
		}
	}
}
