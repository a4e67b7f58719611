// SPDX-License-Identifier: Apache-2.0

// Package ui is the console for people: pages that an API node serves at /ui. They are files that anybody may read; what
// they show they ask the API for, with the token of the person who looks.
//
// The browser runs static/ as it is: ES modules, no build. What can be wrong without a browser is in modules that touch
// no page (words.js, rate.js, series.js, route.js, trouble.js, form.js, serial.js). static/vendor is Preact and uPlot,
// unchanged, with their licenses; vendor.txt says where they are from.
package ui
