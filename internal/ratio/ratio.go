// Package ratio reduces ratios of whole numbers.
package ratio

// GCD returns the greatest common divisor of two numbers that are not negative; GCD(0, n) is n.
func GCD(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
