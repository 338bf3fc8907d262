// Package plan keeps the children of an owner in order.
package plan
