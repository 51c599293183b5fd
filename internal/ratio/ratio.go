// Package ratio reduces ratios of whole numbers.
package ratio

// GCD returns the greatest common divisor of two numbers from 0 on; of 0 and a number it is the number.
func GCD(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
