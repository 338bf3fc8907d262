package browser_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/plan"
)

// markup is a message that would do harm if it were taken for HTML.
const markup = `<img src=x onerror="document.title='harm'"> 0 of 1 completed`

func object(name string, state plan.State, message, kind string, needs ...string) plan.NodeStatus {
	return plan.NodeStatus{
		Name: name, State: state, Message: message, Kind: kind, APIVersion: "v1", Namespace: "default",
		ObjectName: "web-" + name, Needs: needs,
	}
}

// shopNodes has a node of each state.
func shopNodes() []plan.NodeStatus {
	return []plan.NodeStatus{
		object("password", plan.Ready, "", "Secret"),
		object("address", plan.Ready, "", "Service"),
		object("database", plan.Ready, "", "StatefulSet", "password", "address"),
		object("migrate", plan.Waiting, markup, "Job", "database", "address"),
		object("app", plan.Blocked, "waits for migrate", "Deployment", "migrate", "address"),
		object("cache", plan.Degraded, "not ready for 5m0s: 0 of 3 replicas are available", "Deployment", "address"),
		object("certificate", plan.Failed, "the issuer refused the name shop.example.com", "Certificate"),
		object("metrics", plan.Absent, "", "ServiceMonitor", "app"),
		object("old-app", plan.Deleting, "waits for its pods", "Deployment"),
	}
}

const (
	focused   = `document.activeElement.dataset.name`
	nodeNow   = `[...document.querySelectorAll('.node')].find(n => n.dataset.name === %q).dataset.state`
	owners    = `[...document.querySelectorAll('.owner .name')].map(e => e.textContent)`
	textOf    = `document.querySelector(%q).innerText`
	asksToken = `document.querySelector('#line').textContent === 'A token is needed'`
	toScroll  = 300 * time.Millisecond
)

func TestPage(t *testing.T) {
	w := newWorld(t, true)
	w.open("")
	w.until(`document.querySelector('#title').textContent === 'No owners'`)

	w.shop("bakery", "", object("oven", plan.Ready, "", "Deployment"))
	w.shop("books", "the publisher does not answer:\ndial tcp 10.0.0.7:443: i/o timeout", shopNodes()...)
	w.until(`document.querySelectorAll('.owner').length === 2`)
	w.check(`document.querySelector('.owner[aria-current] .name').textContent.endsWith('/bakery')`)
	w.do(chromedp.Click(chromedp.CSS(`.owner[href$="books"]`)))
	w.until(`document.querySelectorAll('.node').length === 9 && document.querySelector('#failed .error')`)
	w.check(`document.querySelectorAll('#edges path').length === 8`)
	w.check(`document.querySelector('#failed .error').textContent.includes('the publisher does not answer')`)
	w.check(`document.querySelector('#turns .why').textContent.includes('Shop')`)
	w.check(`document.querySelectorAll('#legend li').length === 7`)
	// Nothing from the cluster became an element.
	w.check(`document.querySelectorAll('img').length === 0 && document.title !== 'harm'`)
	w.check(`document.body.innerText.includes('<img src=x onerror=')`)
	w.picture("page")

	t.Run("keyboard", func(*testing.T) { keyboard(w) })

	// A change is shown without a step of the person, who keeps the focus.
	nodes := shopNodes()
	nodes[3].State, nodes[3].Message = plan.Ready, ""
	nodes[4].State, nodes[4].Message = plan.Waiting, "1 of 2 replicas are available"
	w.status("books", nodes...)
	w.until(fmt.Sprintf(nodeNow, "migrate") + ` === 'Ready'`)
	w.check(fmt.Sprintf(nodeNow, "app") + ` === 'Waiting'`)
	w.check(focused + ` === 'app'`)
	w.check(`document.querySelector('#news').textContent === 'migrate: Ready, app: Waiting'`)
	// The node with the focus leaves the plan.
	w.status("books", nodes[:4]...)
	w.until(`document.querySelectorAll('.node').length === 4`)
	w.check(focused + ` === 'password'`)
	// An owner that is deleted vanishes.
	w.ok(w.shops.Delete(t.Context(), "books"))
	w.until(`document.querySelectorAll('.owner').length === 0 && document.querySelector('#shown').hidden`)
	w.check(`document.querySelector('#summary').textContent === 'There is no such owner.'`)
}

// TestPicture takes the pictures of the front page, which make recording keeps current.
func TestPicture(t *testing.T) {
	w := newWorldIn(t, true, func(*kubetest.Cluster) string { return "default" })
	node := func(name string, state plan.State, message, kind string, needs ...string) plan.NodeStatus {
		n := object(name, state, message, kind, needs...)
		n.ObjectName = "corner-" + name
		return n
	}
	for _, name := range []string{"bakery", "books", "corner"} {
		t.Cleanup(func() { _ = w.shops.Delete(context.WithoutCancel(t.Context()), name) })
	}
	w.shop("bakery", "", node("oven", plan.Ready, "", "Deployment"))
	w.shop("books", "", node("cover", plan.Ready, "", "Deployment"))
	w.shop("corner", "",
		node("password", plan.Ready, "", "Secret"), node("address", plan.Ready, "", "Service"),
		node("database", plan.Ready, "", "StatefulSet", "password", "address"),
		node("account", plan.Ready, "", "Account"), node("till/east", plan.Ready, "", "Account"),
		node("region/east", plan.Ready, "", "ConfigMap", "till/east"),
		node("settings", plan.Ready, "", "ConfigMap"), node("front", plan.Ready, "", "Service"),
		node("gifts", plan.Blocked, "waits for app", "Deployment", "app", "front"),
		node("app", plan.Blocked, "waits for migrate", "Deployment", "migrate", "account", "region/east", "settings"),
		node("migrate", plan.Waiting, "0 of 1 completed", "Job", "database", "address"))
	w.open("#default/corner")
	w.until(`document.querySelectorAll('.node').length === 11 && document.querySelectorAll('.owner').length === 3`)
	w.do(chromedp.Click(chromedp.CSS(`.node[data-name="migrate"]`)), chromedp.Click(chromedp.CSS("#whole")))
	w.until(fmt.Sprintf(textOf, "#node") + `.includes('0 of 1 completed')`)
	w.picture("plans")
}

// keyboard moves from the address bar to a node, and along edges.
func keyboard(w *world) {
	w.open("#" + w.namespace + "/bakery") // a link to an owner
	w.do(chromedp.Reload())
	w.until(`document.querySelector('#title').textContent.endsWith('/bakery')`)
	w.until(owners + `.length === 2`)
	w.press(kb.Tab)
	w.check(`document.activeElement.id === 'skip'`)
	w.press(kb.Tab)
	w.check(`document.activeElement.id === 'find'`)
	w.press("OOKS")
	w.until(owners + `.length === 1`)
	w.press(kb.ArrowDown)
	w.check(`document.activeElement.matches('.owner')`)
	w.press(kb.Enter)
	w.until(`document.querySelectorAll('.node').length === 9`)
	for range 5 { // past the buttons for the size
		w.press(kb.Tab)
		if read[bool](w, `document.activeElement.matches('.node')`) {
			break
		}
	}
	w.check(focused + ` === 'password'`)
	for _, step := range []struct{ key, leadsTo string }{
		{kb.ArrowRight, "database"}, {kb.ArrowRight, "migrate"}, {kb.ArrowRight, "app"}, {kb.ArrowRight, "metrics"},
		{kb.ArrowRight, "metrics"}, {kb.ArrowLeft, "app"}, {kb.Home, ""}, {kb.End, "metrics"}, {kb.ArrowLeft, "app"},
	} {
		w.press(step.key)
		if at := read[string](w, focused); step.leadsTo != "" && at != step.leadsTo {
			w.Errorf("a key leads to %q, want %q", at, step.leadsTo)
		}
	}
	// The focus can be seen, and the node is described.
	w.check(`getComputedStyle(document.activeElement).outlineStyle === 'solid'`)
	w.check(`document.activeElement.getAttribute('aria-label').startsWith('app, Blocked: waits for migrate; needs ')`)
	w.check(fmt.Sprintf(textOf, "#node") + `.includes('Deployment default/web-app')`)
	w.check(`document.querySelectorAll('#edges path.near').length === 3`)
	w.picture("keyboard")
}

func TestLogin(t *testing.T) {
	w := newWorld(t, false)
	w.shop("bakery", "", object("oven", plan.Ready, "", "Deployment"))
	w.open("")
	w.until(`!document.querySelector('#login').hidden && document.querySelector('#main').hidden`)
	w.check(`document.activeElement.id === 'token'`)
	w.picture("login")

	w.do(chromedp.SendKeys(chromedp.CSS("#token"), "жетон"+kb.Enter)) // no header can have it
	w.until(`document.querySelector('#refused').textContent === 'This is not a token.'`)
	w.press("nonsense" + kb.Enter)
	w.until(`document.querySelector('#refused').textContent === 'The cluster does not know this token.'`)
	w.check(`getComputedStyle(document.activeElement).outlineStyle === 'solid'`)
	token := w.account("reader")
	w.press(token + kb.Enter)
	w.until(`document.querySelector('#refused').textContent.includes('may not get /plans/data')`)
	w.allow("reader")
	for { // the refusal is remembered for some seconds
		w.until(asksToken)
		w.press(token + kb.Enter)
		w.until(`!document.querySelector('#main').hidden || ` + asksToken)
		if read[bool](w, `!document.querySelector('#main').hidden`) {
			break
		}
		time.Sleep(time.Second) // before the next try
	}
	w.until(`document.querySelectorAll('.node').length === 1`)
	w.check(fmt.Sprintf(`!location.href.includes(%q) && !document.cookie`, token)) // the token is in no address
	w.do(chromedp.Reload())
	w.until(`document.querySelectorAll('.node').length === 1`) // the tab has kept it
	w.do(chromedp.Click(chromedp.CSS("#leave")))
	w.until(`!document.querySelector('#login').hidden && sessionStorage.length === 0`)
	w.check(`document.querySelector('#main').hidden`)
}

// account returns a token of a service account.
func (w *world) account(name string) string {
	accounts := kube.For[corev1.ServiceAccount](w.client).In(w.namespace)
	_, err := accounts.Apply(w.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.ok(err)
	r, err := kube.Sub[authenticationv1.TokenRequest](accounts, "token").Create(w.Context(), name,
		&authenticationv1.TokenRequest{})
	w.ok(err)
	return r.Status.Token
}

// allow lets a service account get the data of the page.
func (w *world) allow(name string) {
	roles, bindings := kube.For[rbacv1.ClusterRole](w.client), kube.For[rbacv1.ClusterRoleBinding](w.client)
	meta := metav1.ObjectMeta{Name: "plans-" + w.namespace}
	_, err := roles.Apply(w.Context(), &rbacv1.ClusterRole{ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/plans/data"}, Verbs: []string{"get"}}}})
	w.ok(err)
	_, err = bindings.Apply(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: name}},
	})
	w.ok(err)
	w.Cleanup(func() {
		ctx := context.WithoutCancel(w.Context())
		if err := errors.Join(roles.Delete(ctx, meta.Name), bindings.Delete(ctx, meta.Name)); err != nil {
			w.Error(err)
		}
	})
}

func TestLargeGraph(t *testing.T) {
	w := newWorld(t, true)
	states := []plan.State{plan.Ready, plan.Ready, plan.Ready, plan.Waiting, plan.Blocked}
	nodes := []plan.NodeStatus{object("settings", plan.Ready, "", "ConfigMap")}
	for i := range 199 {
		name := fmt.Sprintf("shard/%d", i)
		n := object(name, states[i%len(states)], "", "StatefulSet", "settings")
		if n.State != plan.Ready {
			n.Message = "1 of 3 replicas are available"
		}
		if i >= 20 { // twenty columns with edges between and across them
			n.Needs = []string{fmt.Sprintf("shard/%d", i-20), fmt.Sprintf("shard/%d", (i*7)%(i-10))}
		}
		nodes = append(nodes, n)
	}
	w.shop("large", "", nodes...)
	w.open("")
	w.until(`document.querySelectorAll('.node').length === 200`)
	w.check(`document.querySelector('#graph').scrollWidth > document.querySelector('#graph').clientWidth`)
	// No two nodes overlap, and each edge leads to the right.
	w.check(`(() => {
		const all = [...document.querySelectorAll('.node')].map(n => n.getBoundingClientRect());
		return all.every((a, i) => all.every((b, j) => i === j ||
			a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top));
	})()`)
	w.check(`(() => {
		const at = new Map([...document.querySelectorAll('.node')].map(n => [n.dataset.name, n.offsetLeft]));
		return [...document.querySelectorAll('#edges path')].every(p => {
			const [from, to] = p.key.split('\n');
			return at.get(from) < at.get(to);
		});
	})()`)
	w.check(`document.querySelector('.node[data-name=settings]').getBoundingClientRect().bottom <
		document.querySelector('#graph').getBoundingClientRect().bottom`)
	w.picture("large")
	w.do(chromedp.Focus(chromedp.CSS(`.node[tabindex="0"]`)))
	w.press(kb.End)
	time.Sleep(toScroll)
	w.check(`(() => {
		const n = document.activeElement.getBoundingClientRect();
		const g = document.querySelector('#graph').getBoundingClientRect();
		return n.left >= g.left && n.right <= g.right && n.top >= g.top && n.bottom <= g.bottom;
	})()`)
	w.picture("end")
	w.do(chromedp.Click(chromedp.CSS("#whole")))
	w.check(`document.querySelector('#graph').scrollWidth <= document.querySelector('#graph').clientWidth + 1 &&
		document.querySelector('#graph').scrollHeight <= document.querySelector('#graph').clientHeight + 1`)
	w.picture("whole")
	took := read[float64](w, `import('./layout.js').then(m => {
		const nodes = Array.from({length: 200}, (_, i) => ({
			name: 'n' + i, needs: ['n' + (i >> 1), 'n' + (i * 7 % (i + 1))],
		}));
		const begun = performance.now();
		m.layout(nodes);
		return performance.now() - begun;
	})`)
	if took > 1000 {
		t.Errorf("the layout took %.0f ms", took)
	}
}

// Whoever writes a status, the page draws something.
func TestStrangeGraphs(t *testing.T) {
	w := newWorld(t, true)
	w.shop("empty", "")
	w.open("")
	w.until(`document.querySelector('#title').textContent.endsWith('/empty')`)
	w.until(`document.querySelectorAll('.node').length === 0 && !document.querySelector('#shown').hidden`)
	w.shop("strange", "", object("a", "Odd", "", "", "b", "a", "nobody"), object("b", plan.Ready, "", "", "a"),
		object("c\n</button>", plan.Ready, "", "", "b"), object("c\n</button>", plan.Failed, "", ""))
	w.open("#" + w.namespace + "/strange")
	w.until(`document.querySelectorAll('.node').length === 3`)
	w.until(`document.querySelectorAll('#edges path').length === 2`)
	w.until(`document.querySelector('.node .mark').textContent === '?'`)

	// A chain that is deeper than a stack, a star, and nodes that need all before them.
	for _, needs := range []string{`['n' + (i + 1)]`, `['n0']`, `Array.from({length: Math.min(i, 500)}, (_, k) => 'n' + k)`} {
		took := read[float64](w, `import('./layout.js').then(m => {
			const begun = performance.now(), count = `+"`"+needs+"`"+`.includes('length') ? 500 : 12000;
			const nodes = Array.from({length: count}, (_, i) => ({name: 'n' + i, needs: `+needs+`}));
			const {boxes, edges, undrawn} = m.layout(nodes);
			if (boxes.size !== count || edges.length !== 4000 || !(undrawn > 0)) throw new Error('not drawn');
			return performance.now() - begun;
		})`)
		if took > 10e3 {
			t.Errorf("the layout of nodes that need %s took %.0f ms", needs, took)
		}
	}

	// A telephone shows the page without scrolling sideways, except for the graph.
	w.shop("strange", "a problem", shopNodes()...)
	w.do(chromedp.EmulateViewport(390, 844))
	w.until(`document.querySelectorAll('.node').length === 9 && document.querySelector('#failed .error')`)
	w.check(`document.documentElement.scrollWidth <= innerWidth`)
	w.picture("narrow")
}
