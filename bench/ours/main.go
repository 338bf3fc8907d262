// Command ours measures pintle's stores.
package main

import "github.com/pintle-go/pintle/bench/measure"

func main() { measure.Main(map[string]measure.Store{}) }
