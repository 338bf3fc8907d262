package main

// strangerTest is a test as a user of package kubetest writes it.
const strangerTest = ``
