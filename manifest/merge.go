package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// verbs lists the verbs in the usual order of roles.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// grant is the permission of one verb.
type grant struct {
	namespace string // empty: everywhere
	group     string
	resource  string // with the subresource behind a slash
	name      string // empty: all
	verb      string
}

// covers reports whether a grant allows everything that another grant allows.
func (g grant) covers(other grant) bool {
	return g.group == other.group && g.resource == other.resource && g.verb == other.verb &&
		(g.namespace == "" || g.namespace == other.namespace) && (g.name == "" || g.name == other.name)
}

// grants returns single verbs. It leaves out each grant that another one covers.
func grants(needs []Rules, definitions []*crd.Definition) ([]grant, error) {
	var all []grant
	var wrong []error
	for _, r := range slices.Concat(needs...) {
		if r.err != nil {
			wrong = append(wrong, r.err)
			continue
		}
		plural, err := pluralOf(r.kind, definitions)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		resource := plural
		if r.subresource != "" {
			resource += "/" + r.subresource
		}
		for _, verb := range r.verbs {
			names := r.names
			if verb == "create" && r.subresource == "" {
				names = nil // the object has none yet
			}
			for _, namespace := range orEmpty(r.namespaces) {
				for _, name := range orEmpty(names) {
					all = append(all, grant{namespace, r.kind.Group, resource, name, verb})
				}
			}
		}
	}
	sortGrants(all)
	all = slices.Compact(all)
	var least []grant
	for i, g := range all {
		covered := slices.ContainsFunc(all, func(o grant) bool { return o != all[i] && o.covers(g) })
		if !covered {
			least = append(least, g)
		}
	}
	return least, errors.Join(wrong...)
}

func orEmpty(s []string) []string {
	if len(s) == 0 {
		return []string{""}
	}
	return s
}

func sortGrants(all []grant) {
	sort.Slice(all, func(i, j int) bool { return compareGrants(all[i], all[j]) < 0 })
}

func compareGrants(a, b grant) int {
	return cmp.Or(
		cmp.Compare(a.namespace, b.namespace),
		cmp.Compare(a.group, b.group),
		cmp.Compare(a.resource, b.resource),
		cmp.Compare(
			a.name, b.name,
		),
		cmp.Compare(slices.Index(verbs, a.verb), slices.Index(verbs, b.verb)),
		cmp.Compare(a.verb, b.verb),
	)
}

// pluralOf finds the plural of a kind, which names its resource.
func pluralOf(kind kube.Kind, definitions []*crd.Definition) (string, error) {
	if kind.Plural != "" {
		return kind.Plural, nil
	}
	for _, d := range definitions {
		if d.Spec.Group == kind.Group && d.Spec.Names.Kind == kind.Kind {
			return d.Spec.Names.Plural, nil
		}
	}
	return "", fmt.Errorf(
		"the plural of %s is not known: add its definition, or name the plural in its kube.Kind", kind.GroupKind(),
	)
}

// policies turns the grants of one namespace into few rules. Together the rules allow
// exactly the requests that the grants allow.
func policies(all []grant) []rbacv1.PolicyRule {
	type target struct{ group, resource string }
	// First collect the names for each target and verb. Then join the verbs that have the
	// same names, and last the resources of a group that have the same verbs and names.
	named := make(map[target]map[string][]string) // verb → names
	for _, g := range all {
		t := target{g.group, g.resource}
		if named[t] == nil {
			named[t] = make(map[string][]string)
		}
		named[t][g.verb] = append(named[t][g.verb], g.name)
	}
	var rules []rbacv1.PolicyRule
	index := make(map[string]int)
	for _, g := range all {
		t := target{g.group, g.resource}
		names := named[t][g.verb]
		if names == nil || g.name != names[0] {
			continue // the target has its rule
		}
		var same []string // verbs for the same names
		for _, verb := range sortedVerbs(named[t]) {
			if slices.Equal(named[t][verb], names) {
				same = append(same, verb)
			}
		}
		for _, verb := range same {
			delete(named[t], verb)
		}
		if names[0] == "" {
			names = nil
		}
		key := fmt.Sprint(g.group, "|", same, "|", names)
		if i, ok := index[key]; ok {
			rules[i].Resources = append(rules[i].Resources, g.resource)
			continue
		}
		index[key] = len(rules)
		rules = append(
			rules,
			rbacv1.PolicyRule{APIGroups: []string{g.group}, Resources: []string{g.resource}, Verbs: same, ResourceNames: names},
		)
	}
	return rules
}

func sortedVerbs(m map[string][]string) []string {
	var found []string
	for v := range m {
		found = append(found, v)
	}
	slices.SortFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(verbs, a), slices.Index(verbs, b)), strings.Compare(a, b))
	})
	return found
}

// byNamespace divides grants by namespace. Grants for all namespaces stand under "".
func byNamespace(all []grant) (namespaces []string, of map[string][]grant) {
	of = make(map[string][]grant)
	for _, g := range all {
		if of[g.namespace] == nil {
			namespaces = append(namespaces, g.namespace)
		}
		of[g.namespace] = append(of[g.namespace], g)
	}
	return namespaces, of
}
