module github.com/berth-project/berth

go 1.26.8
