// Package structure tests that the repository's folders are as docs/architecture.md describes them.
package structure
