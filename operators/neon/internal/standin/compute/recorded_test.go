package compute

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// recordedStatus is the form of /status: the same fields in the same order, with the same
// types.
const recordedStatus = `\{"start_time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z","tenant":"[0-9a-f]{32}","timeline":"[0-9a-f]{32}",` +
	`"status":"[a-z_]+","last_active":(null|"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}\+00:00"),"error":(null|".*")\}`

// answers are all that real computes answered in the recordings. [process.callAs] holds the
// stand-in to them, and the test below holds them to the recordings.
var answers = []struct {
	method, path string
	status       int
	body         *regexp.Regexp
}{
	{"GET", "/status", 200, whole(recordedStatus)},
	{"POST", "/configure", 200, whole(recordedStatus)},
	{"POST", "/configure", 412, whole(`\{"error":"invalid compute status: [a-z_]+"\}`)},
	{"POST", "/configure", 500, whole(`\{"error":"compute configuration failed: \\"unknown error\\""\}`)},
	{"POST", "/terminate", 200, whole(`\{"lsn":(null|"[0-9A-F]+/[0-9A-F]+")\}`)},
	{"POST", "/terminate", 412, whole(`\{"error":"invalid compute status: [a-z_]+"\}`)},
	{"GET", "/promote", 405, whole(``)},
	{"POST", "/promote", 415, whole("Expected request with `Content-Type: application/json`")},
	{"POST", "/promote", 422, whole("Failed to deserialize the JSON body into the target type: spec: invalid type: null, expected struct ComputeSpec.*")},
}

func whole(form string) *regexp.Regexp { return regexp.MustCompile("^" + form + "$") }

// recordedAs tells whether an answer has the form of a recorded one with its status. Without
// a recorded one with this status, known is false.
func recordedAs(method, path string, status int, body string) (same, known bool) {
	path, _, _ = strings.Cut(path, "?")
	for _, a := range answers {
		if a.method == method && a.path == path && a.status == status {
			return a.body.MatchString(body), true
		}
	}
	return false, false
}

var (
	recordedCall   = regexp.MustCompile(`^\S+ \[compute\] (\S+) http://127\.0\.0\.1:\d+(\S+)`)
	recordedAnswer = regexp.MustCompile(`^  -> (\d+) \S+s ?(.*)$`)
)

func TestTheRecordingsHaveTheseAnswers(t *testing.T) {
	t.Parallel()
	logs, err := filepath.Glob("../contract/testdata/recordings/calls*.log")
	if err != nil || len(logs) == 0 {
		t.Fatalf("find recordings: %v, %v", logs, err)
	}
	seen := 0
	for _, path := range logs {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		var call []string
		for lines.Scan() {
			if match := recordedCall.FindStringSubmatch(lines.Text()); match != nil {
				call = match
				continue
			}
			answer := recordedAnswer.FindStringSubmatch(lines.Text())
			if call == nil || answer == nil {
				continue
			}
			status, err := strconv.Atoi(answer[1])
			if err != nil {
				t.Fatal(err)
			}
			if status != 0 { // 0 is a call without an answer
				seen++
				if same, _ := recordedAs(call[1], call[2], status, answer[2]); !same {
					t.Errorf("%s %s was answered otherwise: %s %s", call[1], call[2], answer[1], answer[2])
				}
			}
			call = nil
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	if seen < 50 {
		t.Errorf("only %d calls of computes in the recordings", seen)
	}
	t.Logf("%d calls", seen)
}
