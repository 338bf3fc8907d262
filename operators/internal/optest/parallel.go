package optest

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel lets n parallel tests of a package run at a time, unless the flag -parallel says how many.
// It is for a package whose tests mostly wait. Its TestMain calls Parallel before it runs the tests.
func Parallel(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen || n <= runtime.GOMAXPROCS(0) {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // the testing package has the flag
	}
}
