package contract

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// call is a recorded call and its answer.
type call struct {
	// line is that of the log, from 1.
	line   int
	time   string
	scope  string
	method string
	port   int
	path   string
	body   string
	// status is 0 for a call without an answer; answer then says why.
	status int
	answer string
}

func (c call) String() string {
	return fmt.Sprintf("line %d, %s [%s] %s %d%s", c.line, c.time, c.scope, c.method, c.port, c.path)
}

func (c call) timedOut() bool { return c.status == 0 && strings.Contains(c.answer, "timed out") }

var (
	callForm   = regexp.MustCompile(`^(\d\d:\d\d:\d\d) \[(\w+)\] (\w+) http://127\.0\.0\.1:(\d+)(\S*) ?(.*)$`)
	answerForm = regexp.MustCompile(`^  -> (\d{3}) [0-9.]+s ?(.*)$`)
)

// readCalls returns the calls of a log. Lines of other forms are remarks and what clients of
// computes saw.
func readCalls(t *testing.T, name string) []call {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var calls []call
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		if match := callForm.FindStringSubmatch(lines.Text()); match != nil {
			c := call{line: number, time: match[1], scope: match[2], method: match[3], path: match[5], body: match[6]}
			c.port = atoi(t, match[4])
			calls = append(calls, c)
			continue
		}
		if match := answerForm.FindStringSubmatch(lines.Text()); match != nil {
			last := &calls[len(calls)-1]
			last.status, last.answer = atoi(t, match[1]), match[2]
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return calls
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// hook is a recorded call of the control plane.
type hook struct {
	Path     string `json:"p"`
	Body     string `json:"body"`
	Answered int    `json:"answered"`
}

// tenant returns the tenant that a hook is about.
func (h hook) tenant(t testing.TB) string {
	t.Helper()
	var body struct {
		Tenant string `json:"tenant_id"`
	}
	if err := json.Unmarshal([]byte(h.Body), &body); err != nil {
		t.Fatalf("decode hook: %v", err)
	}
	return body.Tenant
}

// readHooks returns the hooks of a file by tenant, in order. Tenants are independent, so their
// hooks may come in another order.
func readHooks(t *testing.T, name string) map[string][]hook {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	hooks := map[string][]hook{}
	for line := range strings.Lines(string(text)) {
		var h hook
		if err := json.Unmarshal([]byte(line), &h); err != nil {
			t.Fatal(err)
		}
		hooks[h.tenant(t)] = append(hooks[h.tenant(t)], h)
	}
	return hooks
}
