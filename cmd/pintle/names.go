package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pintle-go/pintle/internal/plural"
)

// names are the names of a new operator.
type names struct {
	name    string // of the operator, its Deployment, its namespace and its image
	kind    string
	group   string
	version string // of the API
	module  string
	pintle  string // the version of pintle
}

const (
	maxLabel  = 63  // of a DNS label
	maxDomain = 253 // of a DNS name
)

var (
	// The name is also that of a Service, whose names begin with a letter.
	nameFormat    = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	kindFormat    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	groupFormat   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	versionFormat = regexp.MustCompile(`^v[1-9][0-9]{0,5}((alpha|beta)[1-9][0-9]{0,5})?$`)
	moduleFormat  = regexp.MustCompile(`^[A-Za-z0-9][-._~A-Za-z0-9]*(/[A-Za-z0-9_~][-._~A-Za-z0-9]*)*$`)
	releaseFormat = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([-+][-+.0-9A-Za-z]*)?$`)
)

// taken are the kinds whose Go names would be declared twice in the new operator.
var taken = []string{"Deployment", "TestFailure", "TestMain", "TestOperator", "TestValidation"}

// notText are the words that YAML does not read as text.
var notText = []string{
	"N", "NO", "No", "Y", "YES", "Yes", "ON", "On", "OFF", "Off",
	"TRUE", "True", "FALSE", "False", "NULL", "Null",
}

// check returns an error for each name that cannot be used.
func (n names) check() error {
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	switch {
	case !nameFormat.MatchString(n.name):
		add("name %q: it must be a DNS label: lower-case letters, digits and dashes, with a letter first", n.name)
	case len(n.name) > maxLabel:
		add("name %q: it has more than %d characters", n.name, maxLabel)
	case n.name == "default" || strings.HasPrefix(n.name, "kube-"):
		add("name %q: the operator runs in a namespace of this name, and Kubernetes has that for itself", n.name)
	}
	switch {
	case n.kind == "":
		add("--kind is missing: it is the kind of the operator's objects, such as Website")
	case !kindFormat.MatchString(n.kind):
		add("--kind %q: it must be letters and digits in CamelCase, with an upper-case letter first, such as Website", n.kind)
	case len(n.kind) > maxLabel || len(n.plural()) > maxLabel:
		add("--kind %q: its plural %q has more than %d characters", n.kind, n.plural(), maxLabel)
	case slices.Contains(notText, n.kind):
		add("--kind %q: YAML reads it as a boolean or as null, unless it is quoted", n.kind)
	case n.kind == "List":
		add("--kind %q: kubectl takes lists for the lists of its own", n.kind)
	case slices.Contains(taken, n.kind):
		add("--kind %q: the new operator needs this name itself", n.kind)
	}
	switch {
	case n.group == "":
		add("--group is missing: it is the API group of the kind, such as example.com")
	case !groupFormat.MatchString(n.group) || !strings.Contains(n.group, "."):
		add("--group %q: it must be a DNS name with a dot, in lower case, such as example.com", n.group)
	case len(n.plural()+"."+n.group) > maxDomain || longLabel(n.group):
		add("--group %q: it is too long", n.group)
	case reserved(n.group):
		add("--group %q: it is reserved for the APIs of Kubernetes", n.group)
	}
	if !versionFormat.MatchString(n.version) {
		add("--version %q: it must be a version of an API, such as v1, v1beta1 or v1alpha1", n.version)
	}
	// The faults of the default are those of the name and of the group.
	if n.module != n.defaultModule() && (!moduleFormat.MatchString(n.module) || strings.HasSuffix(n.module, ".")) {
		add("--module %q: it is not the path of a Go module, such as example.com/website-operator", n.module)
	} else if first, _, _ := strings.Cut(n.module, "/"); n.module != n.defaultModule() && isStandard(first) {
		add("--module %q: the standard library has packages of this path", n.module)
	}
	switch {
	case n.pintle == "":
		add("--pintle is missing: this program was built from a checkout, and knows no version of pintle to require " +
			"(docs/tutorial.md: Before the first release)")
	case !releaseFormat.MatchString(n.pintle):
		add("--pintle %q: it is not the version of a Go module, such as v0.1.0", n.pintle)
	}
	return errors.Join(wrong...)
}

// standard has the first words of the paths that go keeps for itself.
const standard = "" +
	"archive bufio bytes cmd cmp compress container context crypto database debug embed encoding " +
	"errors expvar flag fmt go hash html image index internal io iter log main maps math mime net " +
	"os path plugin reflect regexp runtime slices sort std strconv strings structs sync syscall " +
	"testing text time unicode unique unsafe vendor weak "

func isStandard(first string) bool { return slices.Contains(strings.Fields(standard), first) }

func (n names) defaultModule() string { return n.group + "/" + n.name }

func (n names) plural() string { return plural.Of(n.kind) }

func longLabel(group string) bool {
	return slices.ContainsFunc(strings.Split(group, "."), func(label string) bool { return len(label) > maxLabel })
}

// reserved reports whether an API server asks for an approval of definitions of a group.
func reserved(group string) bool {
	return slices.ContainsFunc([]string{"k8s.io", "kubernetes.io"}, func(domain string) bool {
		return group == domain || strings.HasSuffix(group, "."+domain)
	})
}
