// Package retry tries again what brokers cannot do yet.
package retry
