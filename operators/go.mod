module github.com/pintle-go/pintle/operators

go 1.26.0

require github.com/pintle-go/pintle v0.1.0
