package optest

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/pintle-go/pintle/kubetest"
	"github.com/pintle-go/pintle/operators/internal/program"
)

var serving = regexp.MustCompile(`serving address=(\S+)`)

// Metric returns the sum of the program's metrics whose lines match a pattern at their
// start.
func Metric(t testing.TB, p *program.Program, pattern string) (sum int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+Address(t, p)+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range regexp.MustCompile(`(?m)^`+pattern+`.* (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += int(n)
	}
	return sum
}

// AtRest waits until a number, such as that of a program's requests, has stayed the same for
// three seconds, and returns it.
func AtRest(t testing.TB, what string, number func() int) int {
	t.Helper()
	const rest = 3 * time.Second
	was, since := number(), time.Now()
	kubetest.Eventually(t, what, func() error {
		if n := number(); n != was {
			was, since = n, time.Now()
		}
		if time.Since(since) < rest {
			return fmt.Errorf("%d so far, and the last one in the last three seconds", was)
		}
		return nil
	})
	return was
}

// Address returns the address at which a program serves, as it has logged it.
func Address(t testing.TB, p *program.Program) string {
	t.Helper()
	return serving.FindStringSubmatch(Expect(t, p, "serving address="))[1]
}
