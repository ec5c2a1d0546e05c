import UbiquityDatabase

@main
struct Shoebox {
    static func main() {}
}
