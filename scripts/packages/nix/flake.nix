# The launcher as a Nix package. Not built by this project's CI; a test parses it.
#
#   nix build ./scripts/packages/nix          then result/bin/dtrain
#   nix run ./scripts/packages/nix -- run --nproc 2 true
{
  description = "Launcher for distributed PyTorch programs";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs = { self, nixpkgs }:
    let
      system = "x86_64-linux";
      pkgs = nixpkgs.legacyPackages.${system};
      inherit (pkgs) lib;
      # dtrain loads these when a flag asks for them, by name: --numa-binding, jobs across hosts.
      loaded = map lib.getLib [ pkgs.hwloc pkgs.openssl ];
    in
    {
      packages.${system}.default = pkgs.stdenv.mkDerivation {
        pname = "dtrain";
        version = "0.1.0";
        src = self.sourceInfo.outPath; # the whole project, of which this folder is a part

        nativeBuildInputs = [ pkgs.cmake pkgs.ninja ];
        # Boost and fmt are those of Debian 12, with which dtrain is tested. fmt has to be 9 (cli/fmt_static.cc).
        buildInputs = [ pkgs.boost181 pkgs.cli11 pkgs.fmt_9 pkgs.hwloc pkgs.libyaml pkgs.nlohmann_json pkgs.openssl ];

        # The flags of `make launcher`. Other compilers than Debian's may warn of more.
        cmakeBuildType = "Release";
        cmakeFlags = [
          "-DDTRAIN_STRATEGIES=OFF"
          "-DDTRAIN_TESTS=OFF"
          "-DDTRAIN_UNITY=ON"
          "-DDTRAIN_WERROR=OFF"
        ];
        ninjaFlags = [ "dtrain" ];

        installPhase = ''
          runHook preInstall
          cmake --install . --component launcher
          runHook postInstall
        '';
        postFixup = ''
          patchelf --add-rpath ${lib.makeLibraryPath loaded}:/run/opengl-driver/lib $out/bin/dtrain
        '';

        doInstallCheck = true;
        installCheckPhase = ''
          runHook preInstallCheck
          $out/bin/dtrain --version
          $out/bin/dtrain run --nproc 2 true
          runHook postInstallCheck
        '';

        meta = {
          description = "Launcher for distributed PyTorch programs";
          license = lib.licenses.bsd3;
          mainProgram = "dtrain";
          platforms = [ system ];
        };
      };
    };
}
