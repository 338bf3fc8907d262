// Package leak runs the tests of a package and looks for goroutines that they have left.
package leak

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// None is the line that says that no goroutine was left although a test has failed. The verdict on
// a run of all tests looks for it: without it, the other tests of the package run once more.
const None = "leak: a test has failed, and no goroutine is left"

// Run runs all tests and returns the code with which TestMain exits. Goroutines that are left fail
// the run, except those that the options name. goleak.VerifyTestMain looks for them only when all
// tests have passed. Run looks after a failure too: nothing that is left then proves that the other
// tests leak nothing. What is left proves nothing, because the failed test may have left it.
func Run(m *testing.M, ignored ...goleak.Option) int {
	code := m.Run()
	err := goleak.Find(ignored...)
	switch {
	case code == 0 && err != nil:
		fmt.Fprintf(os.Stderr, "goleak: Errors on successful test run: %v\n", err)
		return 1
	case code != 0 && err == nil:
		fmt.Println(None)
	}
	return code
}
