// Package structure holds the folders of the repository to what docs/architecture.md says of them: its tests.
package structure
